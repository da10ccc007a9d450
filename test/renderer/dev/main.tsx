/** The page on invented data, for work on the look: `npx vite --config test/renderer/dev/vite.config.ts`. `?n=100` makes a large fleet, `?case=empty|idle|down|unplaced|unindexed` the empty states. */
import '../../../renderer/src/theme/mantine.css';
import '../../../renderer/src/theme/tokens.css';
import '../../../renderer/src/theme/kit.css';
import { createRoot } from 'react-dom/client';
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { App } from '../../../renderer/src/app.tsx';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { failedRow, sampleDetail, sampleEncodeLegs, sampleRow } from '../requests/sample-requests.ts';
import { sampleStatus } from '../fixtures/sample-connector-status.ts';
import { sampleBlock, sampleDifference, sampleFrames, sampleHits, samplePage as sampleTreePage, sampleReport, sampleResidency, sampleStorms, sampleSummary, SURE } from '../cache/sample-cache.ts';
import { samplePage, sampleVerdict } from '../fixtures/sample-findings.ts';
import { gapRow, sampleEvent } from '../kv-events/sample-events.ts';
import { sampleSeries } from '../fixtures/sample-series.ts';
import { sampleInstance, sampleState } from '../fixtures/sample-state.ts';

const params = new URLSearchParams(location.search);
const count = Number(params.get('n') ?? 0);
const transport = new FakeTransport();
let state = sampleState({ findings: samplePage().summary });
if (count > 0) {
  state = sampleState({
    instances: Array.from({ length: count }, (_, index) =>
      sampleInstance({ name: `${index % 3 === 0 ? 'P' : 'D'}${index}`, role: index % 3 === 0 ? 'prefill' : 'decode', inFlight: index, ...(index === 7 && { state: 'down' as const }) }),
    ),
  });
}
const health: readonly Partial<KvStreamView>[] = [
  { confidence: 1, reasons: [], gaps: 2, gapsFilled: 2, missedBatches: 40, missedFilled: 40, missedLost: 0, replay: { state: 'idle', endpoint: 'tcp://10.0.4.12:5558', asked: 2, failed: 0, batches: 40, layout: 'topic' }, coverage: { applied: 48_113, unseen: 0, lost: 0, unreadable: 0, share: 1 } },
  { confidence: 0.74, reasons: [{ code: 'joined-late', text: '112 batches went by before the stream was joined: blocks stored in them are unknown.', weight: 0.26 }], replay: { state: 'none', asked: 0, failed: 0, batches: 0 }, coverage: { applied: 310, unseen: 112, lost: 0, unreadable: 0, share: 0.735 }, sawStart: false },
  { confidence: 0.97, reasons: [{ code: 'replaying', text: 'A replay of 12 batches runs; live batches wait for it.', weight: 0.03 }], gaps: 1, gapsFilled: 0, missedBatches: 12, missedFilled: 0, missedLost: 0, replay: { state: 'asking', asked: 1, failed: 0, batches: 0 }, coverage: { applied: 9000, unseen: 0, lost: 0, unreadable: 0, share: 1 } },
  { confidence: 0.31, reasons: [{ code: 'connection-lost', text: 'The connection broke 41 s ago; what the engine did since is unknown.', weight: 0.69 }] },
  { confidence: 0.86, reasons: [{ code: 'batches-lost', text: '23 batches were lost in a gap.', weight: 0.14 }], gapsFilled: 0, missedFilled: 0, missedLost: 23, replay: { state: 'failed', reason: 'no answer within 2 s', asked: 3, failed: 3, batches: 0 }, coverage: { applied: 700, unseen: 0, lost: 23, unreadable: 0, share: 0.968 } },
];
state = { ...state, streams: state.streams.map((stream, index) => ({ ...stream, ...health[index % health.length] })) };
if (params.get('case') === 'empty') state = sampleState({ instances: [], streams: [], edges: [], latency: {} });
if (params.get('case') === 'idle') state = { ...state, edges: [], latency: {}, totals: { ...state.totals, received: 0, running: 0, requestsPerSecond: 0 } };

transport.answer('series.query', (input) => sampleSeries(state, input, Date.now()));
transport.answer('instance.probe', (input) => ({ url: `http://${input.url}`, isReachable: true, isHealthy: true, models: ['Llama-3-8B'], version: '0.11.0', roundTripMs: 2.3, problem: `It serves Llama-3-8B; the fleet serves Qwen3-8B. Use force to add it all the same.`, canForce: true }));
transport.answer('connector.status', () => sampleStatus(state.connector));
transport.answer('findings.list', () => (params.get('case') === 'empty' ? { findings: [], summary: state.findings } : samplePage()));
transport.answer('connector.set', ({ connector }) => {
  state = { ...state, connector };
  return { connector };
});
transport.answer('protocol.set', (change) => {
  const { blockFatal = state.protocol.blockFatal, reemitStreams = state.protocol.reemitStreams, encodeStage = state.protocol.encodeStage } = change;
  state = { ...state, protocol: { blockFatal, reemitStreams, encodeStage } };
  return state.protocol;
});
transport.answer('profile.start', () => ({
  answers: state.instances.map(({ id, name, url }, index) => ({ instance: id, name, url, outcome: (['ok', 'unsupported', 'failed'] as const)[index % 3] ?? 'ok', ...(index % 3 === 2 && { message: 'connect ECONNREFUSED' }) })),
}));
const rows = Array.from({ length: 60 }, (_, index) => {
  const n = index + 1;
  if (n % 13 === 0) return failedRow(n);
  if (n % 7 === 0) return sampleRow(n, { findings: { count: 2, worst: n % 2 === 0 ? 'error' : 'warning' } });
  if (n % 5 === 0) return sampleRow(n, { route: sampleRow(n).route.map((step) => ({ ...step, rank: n % 4 })) });
  if (n === 59) return sampleRow(n, { api: 'forward', path: '/v1/embeddings', isStream: false, route: [{ kind: 'forward', instance: 'd0' as InstanceId, name: 'D0' }], phases: [] });
  if (n === 58) return sampleRow(n, { route: [...sampleEncodeLegs(24).map((leg) => ({ kind: leg.kind, instance: leg.instance, name: leg.instanceName })), ...sampleRow(n).route] });
  return sampleRow(n);
});
transport.answer('requests.get', ({ id }) => {
  const row = rows.find((one) => one.id === id) ?? sampleRow(1);
  const verdicts = row.findings === undefined ? [] : [sampleVerdict(), sampleVerdict({ severity: row.findings.worst, code: 'missing_tp_size', title: 'Fields that make decode wait for ever', hop: 'proxy->decode', effect: 'hangs', isBlocked: true })];
  const detail = sampleDetail(row, { verdicts });
  return row.n === 58 ? { ...detail, legs: [...sampleEncodeLegs(24), ...detail.legs] } : detail;
});
const isBare = ['empty', 'unplaced', 'unindexed'].includes(params.get('case') ?? '');
const none = { blocks: 0, tokens: 0, copies: 0, samples: [] };
transport.answer('cache.hits', (input) => ({ ...sampleHits(input), ...(isBare && { series: [], disagreements: [] }) }));
transport.answer('cache.misses', () => (isBare ? sampleSummary({ requests: 0, promptTokens: 0, missedTokens: 0, unexplained: [], causes: [] }) : sampleSummary()));
transport.answer('cache.residency', ({ cells = 2048 }) => {
  const map = sampleResidency(cells);
  return isBare ? { ...map, rows: params.get('case') === 'unplaced' ? map.rows.map((row) => ({ ...row, blocks: 0, ageS: [], reuse: [], holders: [], node: [], unplaced: 812 })) : [] } : map;
});
transport.answer('cache.tree', ({ node, instance }) => (isBare || instance === 'd2' ? sampleTreePage(undefined, { children: [], totalNodes: isBare ? 0 : 40_112, confidence: SURE }) : sampleTreePage(node)));
transport.answer('cache.search', ({ text, tokens }) => ({ matches: text === 'nothing' ? [] : sampleTreePage(undefined).children.slice(0, 4), matchedTokens: text === 'nothing' ? 0 : 96, askedTokens: tokens?.length ?? 120, confidence: SURE }));
transport.answer('cache.difference', () => (isBare ? sampleDifference({ onlyLeft: none, onlyRight: none, both: none }) : sampleDifference()));
transport.answer('cache.storms', () => sampleStorms(isBare || params.get('case') === 'idle' ? { storms: [] } : { fewBlocks: 12 }));
transport.answer('cache.block', ({ node, stream, hash }) => sampleBlock(node ?? 12, stream === undefined || hash === undefined ? {} : { hashes: [{ stream: stream as StreamId, instanceName: 'P0', hash }] }));
transport.answer('requests.why', ({ id }) => (id === 'r58' ? sampleReport(id, { state: 'unavailable', reason: 'no instance could tokenise the prompt (POST /tokenize: 404)', ranges: [], matches: [] }) : sampleReport(id)));
transport.answer('kv.frames', ({ n }) => sampleFrames(n));
transport.answer('kv.blocks', () => ({ blocks: [], matching: 0, total: 40_112, evicted: 0, byStream: state.streams.map(({ id, instanceName, resident }) => ({ stream: id, instanceName, resident })) }));
transport.onSubscribe = (subscription) => {
  if (subscription.channel === 'kv') {
    const events = Array.from({ length: 200 }, (_, index) => (index % 31 === 30 ? gapRow(index + 1) : sampleEvent(index + 1)));
    setTimeout(() => transport.snapshot('kv', { rows: isBare ? [] : events, counters: { total: 200, kept: 200, evicted: 0, dropped: 0, matching: 200 }, omitted: 0 }), 50);
  }
  if (subscription.channel !== 'requests') return;
  setTimeout(() => transport.snapshot('requests', { rows, counters: { total: 60, kept: 60, evicted: 0, dropped: 0, matching: 60 }, omitted: 0 }), 50);
};
if (params.get('case') === 'down') transport.connection.set({ phase: 'waiting', attempt: 3, retryAtUnixMs: Date.now() + 60_000, reason: 'connection closed (1006)' });
else {
  let tick = 0;
  setInterval(() => {
    tick += 1;
    const streams = state.streams.map((stream, index) => ({ ...stream, eventsPerSecond: Math.max(0, 510 + Math.sin(tick / 9 + index) * 300) }));
    transport.snapshot('state', { state: { ...state, streams, nowUnixMs: sampleState().nowUnixMs + tick * 250 } });
  }, 250);
}

const root = document.querySelector('#root');
if (root !== null) createRoot(root).render(<App transport={transport} />);
