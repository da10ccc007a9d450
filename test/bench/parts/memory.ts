/** Memory of the whole engine: with a full history of requests, and with a million resident blocks. */
import { startCluster } from '../cluster-handle.ts';
import { printTable } from '../figures.ts';
import { startPublisher } from '../kv-publisher.ts';
import { connected, settled, totalsOf } from '../kv-settle.ts';
import { startMockCluster } from '../mock-cluster.ts';
import { pause, TOKENS_PER_SECOND, type Part } from '../part.ts';
import { startProxyProcess } from '../proxy-handle.ts';

/** What the demo offers by default: 6 requests a second. */
const HOUR_OF_REQUESTS = 6 * 3600;
const CLUSTER = { prefill: 2, decode: 3 };
const FASTER_RPS = 150;
const HISTORY_DEADLINE_MS = 400_000;
/** The default limit of blocks held, over all streams. */
const BLOCKS = 1_000_000;
const BLOCKS_PER_SECOND = 100_000;
const BLOCKS_DEADLINE_MS = 120_000;
/** Instances that publish. */
const STREAMS = 8;

export const memoryPart: Part = {
  name: 'memory',
  run: async () => {
    const history = await measureHistory();
    printTable(
      "Memory after an hour's worth of demo traffic, run faster than real time; the simulated 2P3D cluster is a process of its own (aim: under 300 MB)",
      ['requests', 'KV events', 'records kept', 'blocks resident', 'RSS at start MB', 'RSS at end MB', 'heap of it', 'after a full GC', 'heap of it', 'live objects'],
      [[
        history.requests, history.kvEvents, history.kept, history.resident,
        history.rssStartBytes / 1e6, history.rssEndBytes / 1e6, history.heapEndBytes / 1e6, history.rssCollectedBytes / 1e6, history.heapCollectedBytes / 1e6, history.liveBytes / 1e6,
      ]],
    );
    const blocks = await measureBlocks();
    printTable(
      `Memory with ${BLOCKS.toLocaleString('en-US')} resident blocks of 16 tokens from ${STREAMS} streams: engine, index, rows and frames (aim: under 600 MB)`,
      ['blocks per event', 'blocks sent', 'blocks resident', 'rows kept', 'RSS at start MB', 'RSS at end MB', 'after a full GC'],
      blocks.map((f) => [String(f.blocksPerEvent), f.sent, f.resident, f.rows, f.rssStartBytes / 1e6, f.rssEndBytes / 1e6, f.rssCollectedBytes / 1e6]),
    );
  },
};

interface Rss {
  readonly rssStartBytes: number;
  /** As it stands, garbage included. */
  readonly rssEndBytes: number;
  /** After a full collection. */
  readonly rssCollectedBytes: number;
}

interface HistoryFigures extends Rss {
  readonly requests: number;
  readonly kvEvents: number;
  readonly kept: number;
  readonly resident: number;
  readonly heapEndBytes: number;
  readonly heapCollectedBytes: number;
  /** Of JavaScript objects, after a full collection. */
  readonly liveBytes: number;
}

interface BlockFigures extends Rss {
  readonly blocksPerEvent: number;
  readonly sent: number;
  readonly resident: number;
  readonly rows: number;
}

/** The product after as many requests as an hour of demo traffic has. */
async function measureHistory(): Promise<HistoryFigures> {
  await using cluster = await startCluster(CLUSTER);
  const engine = await startProxyProcess({ instances: cluster.specs });
  const start = await engine.usage();
  cluster.begin(engine.url, FASTER_RPS);
  let now = start;
  const deadline = performance.now() + HISTORY_DEADLINE_MS;
  while (now.state.totals.received < HOUR_OF_REQUESTS && performance.now() < deadline) {
    await pause(2000);
    now = await engine.usage();
  }
  const collected = await engine.memory();
  await engine.stop();
  return {
    requests: now.state.totals.received,
    kvEvents: now.state.rings.kv.total,
    kept: now.state.rings.requests.kept,
    resident: totalsOf(now.state).resident,
    rssStartBytes: start.rssBytes,
    rssEndBytes: now.rssBytes,
    rssCollectedBytes: collected.rssBytes,
    heapEndBytes: now.heapBytes,
    heapCollectedBytes: collected.heapBytes,
    liveBytes: collected.heapUsedBytes,
  };
}

async function measureBlocks(): Promise<readonly BlockFigures[]> {
  const clusters = await Promise.all(Array.from({ length: STREAMS / 2 }, async () => await startMockCluster({ tokens: 1, tokensPerSecond: TOKENS_PER_SECOND }, { prefill: 0, decode: 0 })));
  const figures: BlockFigures[] = [];
  for (const [blocksPerEvent, eventsPerBatch] of [[16, 8], [1, 16]] as const) {
    await using publisher = await startPublisher({ streams: STREAMS, shape: { blocksPerEvent, eventsPerBatch } });
    const engine = await startProxyProcess({
      instances: clusters.flatMap(({ prefill, decode }) => [prefill, decode]).map((url, at) => (
        { role: at % 2 === 0 ? 'prefill' : 'decode', url, kvEvents: { endpoint: publisher.endpoints[at] ?? '', topic: '', ranks: 1, mode: 'connect' } }
      )),
    });
    await connected(engine);
    const start = await engine.usage();
    publisher.begin(BLOCKS_PER_SECOND);
    const deadline = performance.now() + BLOCKS_DEADLINE_MS;
    while (totalsOf((await engine.usage()).state).resident < BLOCKS && performance.now() < deadline) await pause(500);
    const { blocks } = await publisher.halt();
    const end = await settled(engine);
    const collected = await engine.memory();
    await engine.stop();
    figures.push({
      blocksPerEvent, sent: blocks, resident: totalsOf(end.state).resident, rows: end.state.rings.kv.kept,
      rssStartBytes: start.rssBytes, rssEndBytes: end.rssBytes, rssCollectedBytes: collected.rssBytes,
    });
  }
  for (const cluster of clusters) await cluster.close();
  return figures;
}
