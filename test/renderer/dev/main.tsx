/** The page on invented data, for work on the look: `npx vite --config test/renderer/dev/vite.config.ts`. `?n=100` makes a large fleet, `?case=empty|idle|down` the empty states. */
import '../../../renderer/src/theme/mantine.css';
import '../../../renderer/src/theme/tokens.css';
import '../../../renderer/src/theme/kit.css';
import { createRoot } from 'react-dom/client';
import type { InstanceId } from '#shared/ids.ts';
import { App } from '../../../renderer/src/app.tsx';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { failedRow, sampleDetail, sampleEncodeLegs, sampleRow } from '../requests/sample-requests.ts';
import { sampleStatus } from '../fixtures/sample-connector-status.ts';
import { samplePage, sampleVerdict } from '../fixtures/sample-findings.ts';
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
transport.onSubscribe = (subscription) => {
  if (subscription.channel !== 'requests') return;
  setTimeout(() => transport.snapshot('requests', { rows, counters: { total: 60, kept: 60, evicted: 0, dropped: 0, matching: 60 }, omitted: 0 }), 50);
};
if (params.get('case') === 'down') transport.connection.set({ phase: 'waiting', attempt: 3, retryAtUnixMs: Date.now() + 60_000, reason: 'connection closed (1006)' });
else {
  setInterval(() => {
    state = { ...state, nowUnixMs: Date.now() };
    transport.snapshot('state', { state: { ...state, nowUnixMs: sampleState().nowUnixMs } });
  }, 250);
}

const root = document.querySelector('#root');
if (root !== null) createRoot(root).render(<App transport={transport} />);
