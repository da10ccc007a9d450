/**
 * `npm run bench`: what pdscope costs, beside the direct path in the same run. Prints tables; judges nothing.
 * Every figure is the median of `--rounds` rounds, the targets taking turns within a round, because machines are shared.
 */
import os from 'node:os';
import { parseArgs } from 'node:util';
import { median, printTable, type Cell } from './figures.ts';
import { measureIndex, type IndexFigures } from './index-scenario.ts';
import { measureKv, type KvFigures } from './kv-scenario.ts';
import { measureMemory } from './memory-scenario.ts';
import { startMockCluster } from './mock-cluster.ts';
import { startModes } from './mode-scenario.ts';
import { startProxyProcess } from './proxy-handle.ts';
import { measureRequests, measureStreams, type RequestFigures, type StreamFigures } from './request-scenarios.ts';
import { cpuOfEngine, cpuOfProcess, directTarget, proxyTarget, type Target } from './target.ts';

const HELP = `npm run bench -- [options]
  --only requests,streams,modes,kv,index,memory   parts to run (default: all)
  --rounds N                          rounds per figure, medians are printed (default 3)
  --seconds N                         length of one measurement (default 4)
  --concurrency 1,64,512              clients of the requests part
  --streams 200,1000                  streams of the streams part
  --peer NAME=URL[#PID]               also measure another proxy (repeatable); point it at the mocks first;
                                      with PID its CPU time is read from /proc (one process, Linux)
  --prefill-port N --decode-port N    fixed ports of the mocks, for peers (default: any)
  --wait-for-peers                    print the mocks' addresses and wait for Enter before measuring`;

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: 'requests,streams,modes,kv,index,memory' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    concurrency: { type: 'string', default: '1,64,512' },
    streams: { type: 'string', default: '200,1000' },
    peer: { type: 'string', multiple: true, default: [] },
    'prefill-port': { type: 'string', default: '0' },
    'decode-port': { type: 'string', default: '0' },
    'wait-for-peers': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const rounds = Math.max(1, Number(values.rounds));
const seconds = Math.max(1, Number(values.seconds));
const parts = new Set(values.only.split(','));

const concurrencies = values.concurrency.split(',').map(Number);
const streamCounts = values.streams.split(',').map(Number);
const KV_RATES = [1000, 10_000, 30_000];
const BLOCKS_PER_EVENT = [1, 4, 16, 64];
const INDEX_STREAMS = 32;
const INDEX_BLOCKS = 1_000_000;
const TOKENS_PER_SECOND = 50;
const WARM_UP_SECONDS = 2;
const MODE_CONCURRENCY = 16;
const MODE_STREAMS = 100;
const tokens = Math.round(seconds * TOKENS_PER_SECOND);

/** Median of each numeric field over the rounds; absent when no round had it. */
function medianOf<F extends object>(figures: readonly F[]): F {
  const first = figures[0];
  if (first === undefined) throw new Error('no rounds');
  const keys = Object.keys(first) as (keyof F)[];
  return Object.fromEntries(
    keys.map((key) => [key, median(figures.map((f) => f[key]).filter((v): v is F[keyof F] & number => typeof v === 'number'))]),
  ) as F;
}

function ratio(value: number | undefined, base: number | undefined): Cell {
  return value === undefined || base === undefined || base === 0 ? undefined : `${(value / base).toFixed(2)}x`;
}

function difference(value: number | undefined, base: number | undefined): Cell {
  return value === undefined || base === undefined ? undefined : value - base;
}

async function inTurns<F extends object>(targets: readonly Target[], measure: (target: Target) => Promise<F>): Promise<readonly (readonly [Target, F])[]> {
  const results = targets.map((): F[] => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [i, target] of targets.entries()) results[i]?.push(await measure(target));
  }
  return targets.map((target, i) => [target, medianOf(results[i] ?? [])] as const);
}

const mocks = await startMockCluster(
  { tokens, tokensPerSecond: TOKENS_PER_SECOND },
  { prefill: Number(values['prefill-port']), decode: Number(values['decode-port']) },
);
console.log(`node ${process.version}, ${os.cpus().length} x ${os.cpus()[0]?.model ?? 'unknown CPU'}; medians of ${rounds} rounds`);
console.log(`mocks: prefill ${mocks.prefill}, decode ${mocks.decode}`);
if (values['wait-for-peers']) {
  console.log('Point the peers at these mocks, then press Enter.');
  await new Promise((resolve) => {
    process.stdin.once('data', resolve);
  });
  process.stdin.pause();
}

const peers = values.peer.map((peer) => {
  const at = peer.indexOf('=');
  if (at < 1) throw new Error(`--peer wants NAME=URL or NAME=URL#PID, not ${JSON.stringify(peer)}`);
  const [url = '', pid] = peer.slice(at + 1).split('#');
  return proxyTarget(peer.slice(0, at), url, pid === undefined ? undefined : cpuOfProcess(Number(pid)));
});

if (parts.has('requests') || parts.has('streams')) {
  const engine = await startProxyProcess({
    instances: [
      { role: 'prefill', url: mocks.prefill },
      { role: 'decode', url: mocks.decode },
    ],
  });
  const targets = [directTarget(mocks), proxyTarget('pdscope', engine.url, cpuOfEngine(engine)), ...peers];
  // The first requests of a process run in the interpreter; what they cost is not what it costs.
  for (const target of targets) await measureRequests(target, 64, WARM_UP_SECONDS);


  if (parts.has('requests')) {
    const rows: Cell[][] = [];
    for (const concurrency of concurrencies) {
      const results = await inTurns<RequestFigures>(targets, async (target) => await measureRequests(target, concurrency, seconds));
      const direct = results[0]?.[1];
      for (const [target, figures] of results) {
        rows.push([
          target.name, concurrency, figures.perSecond, ratio(figures.perSecond, direct?.perSecond),
          figures.p50Ms, difference(figures.p50Ms, direct?.p50Ms), figures.p99Ms,
          figures.cpuMicros, figures.cpuMicros === undefined ? undefined : 1e6 / figures.cpuMicros,
        ]);
      }
    }
    printTable(
      'Two-leg completions, not streaming (prefill + decode, fixed answers)',
      ['target', 'c', 'req/s', 'of direct', 'p50 ms', 'added p50', 'p99 ms', 'CPU us/req', 'req/s per core'],
      rows,
    );
  }

  if (parts.has('streams')) {
    const rows: Cell[][] = [];
    for (const count of streamCounts) {
      const results = await inTurns<StreamFigures>(targets, async (target) => await measureStreams(target, count, tokens));
      const direct = results[0]?.[1];
      for (const [target, figures] of results) {
        rows.push([
          target.name, count, figures.chunks, figures.incomplete, figures.ttftP50Ms,
          figures.chunkP50Ms, difference(figures.chunkP50Ms, direct?.chunkP50Ms),
          figures.chunkP99Ms, difference(figures.chunkP99Ms, direct?.chunkP99Ms), figures.cpuMicros,
        ]);
      }
    }
    printTable(
      `Concurrent SSE streams, ${TOKENS_PER_SECOND} tokens/s each, ${tokens} tokens`,
      ['target', 'streams', 'chunks', 'incomplete', 'TTFT p50 ms', 'chunk p50 ms', 'added', 'chunk p99 ms', 'added', 'CPU us/chunk'],
      rows,
    );
  }
  await engine.stop();
}

if (parts.has('modes')) {
  await using modes = await startModes({ tokens, tokensPerSecond: TOKENS_PER_SECOND });
  for (const target of modes.targets) await measureRequests(target, MODE_CONCURRENCY, WARM_UP_SECONDS);
  const requests = await inTurns<RequestFigures>(modes.targets, async (target) => await measureRequests(target, MODE_CONCURRENCY, seconds));
  const streams = await inTurns<StreamFigures>(modes.targets, async (target) => await measureStreams(target, MODE_STREAMS, tokens));
  const nixl = { request: requests[0]?.[1].cpuMicros, chunk: streams[0]?.[1].cpuMicros };
  printTable(
    `Protocols: CPU per request (completions, c=${MODE_CONCURRENCY}) and per chunk (${MODE_STREAMS} streams), beside nixl`,
    ['mode', 'req/s', 'p50 ms', 'CPU us/req', 'of nixl', 'CPU us/chunk', 'of nixl'],
    requests.map(([target, { perSecond, p50Ms, cpuMicros }], i) => {
      const chunk = streams[i]?.[1].cpuMicros;
      return [target.name, perSecond, p50Ms, cpuMicros, ratio(cpuMicros, nixl.request), chunk, ratio(chunk, nixl.chunk)];
    }),
  );
}

if (parts.has('kv')) {
  const rows: Cell[][] = [];
  for (const rate of KV_RATES) {
    const results: KvFigures[] = [];
    for (let round = 0; round < rounds; round += 1) results.push(await measureKv(mocks.decode, rate, seconds));
    const figures = medianOf(results);
    rows.push([
      `${rate.toLocaleString('en-US')} batches/s`, figures.offeredPerSecond, figures.sent, figures.received, figures.missed,
      figures.dropped, figures.cpuMicros, (figures.cpuMicros * figures.offeredPerSecond) / 1e4, figures.loopDelayP99Ms, figures.rssBytes / 1e6,
    ]);
  }
  printTable(
    'KV events: batches of one stored block (16 tokens), one stream',
    ['offered', 'real rate', 'sent', 'received', 'missed', 'dropped', 'CPU us/batch', '% of a core', 'loop p99 ms', 'RSS MB'],
    rows,
  );
}

if (parts.has('index')) {
  const results: (readonly [number, IndexFigures])[] = [];
  for (const blocksPerEvent of BLOCKS_PER_EVENT) {
    const figures: IndexFigures[] = [];
    for (let round = 0; round < rounds; round += 1) figures.push(await measureIndex(blocksPerEvent, INDEX_STREAMS, INDEX_BLOCKS));
    results.push([blocksPerEvent, medianOf(figures)]);
  }
  printTable(
    `Block index: ${INDEX_BLOCKS.toLocaleString('en-US')} blocks of 16 tokens, ${INDEX_STREAMS} streams, one core (aims: 500,000 blocks/s indexed, under 600 MB, prefix under 1 ms)`,
    ['blocks per event', 'decoded/s', 'decoded and indexed/s', 'held', 'RSS MB', 'at start', 'bytes/block', 'prefix 8k p50 ms', 'p99 ms', 'explain p50 ms', 'count tree ms'],
    results.map(([blocksPerEvent, f]) => [
      String(blocksPerEvent), f.decodedPerSecond, f.indexedPerSecond, f.held, f.rssBytes / 1e6, f.startRssBytes / 1e6, f.bytesPerBlock, f.prefixP50Ms, f.prefixP99Ms, f.explainP50Ms, f.countMs,
    ]),
  );
}

if (parts.has('memory')) {
  const figures = await measureMemory();
  printTable(
    "Memory after an hour's worth of demo traffic (simulated 2P3D cluster in the same process, run faster than real time)",
    ['requests', 'KV events', 'records kept', 'blocks resident', 'RSS at start MB', 'RSS at end MB', 'after a full GC'],
    [[figures.requests, figures.kvEvents, figures.kept, figures.resident, figures.rssStartBytes / 1e6, figures.rssEndBytes / 1e6, figures.rssCollectedBytes / 1e6]],
  );
}

await mocks.close();
