/**
 * What proxied streams feel of KV events: delay of every chunk and TTFT at a fixed number of streams, while block stores
 * come in at several rates over real PUB sockets, from a process of their own, to the whole engine (rows, resident
 * blocks, index). Measured in every round and under the same flood, which takes the machine from all of them: the direct
 * path, a relay that does nothing but pass bytes on in a process of its own, and pdscope. Mocks and clients share a
 * process, so the direct path needs no other process to be given a core; the relay does, as any proxy.
 */
import { printTable, type Cell } from '../figures.ts';
import type { BatchShape } from '../kv-frames.ts';
import { startPublisher, type KvPublisher, type PublisherReport } from '../kv-publisher.ts';
import { connected, settled, totalsOf } from '../kv-settle.ts';
import { startMockCluster, type MockCluster } from '../mock-cluster.ts';
import { difference, medianOf, TOKENS_PER_SECOND, tokensIn, WARM_UP_SECONDS, type Part } from '../part.ts';
import { cpuMicros, startProxyProcess, type ProxyHandle, type Usage } from '../proxy-handle.ts';
import { startRelays } from '../relay.ts';
import { measureRequests, measureSteadyStreams, type SteadyFigures } from '../request-scenarios.ts';
import { directTarget, proxyTarget, type Target } from '../target.ts';

/** Pairs of a prefill and a decode instance; each instance publishes a stream of events. */
const PAIRS = 4;
const STREAMS = 200;
const ANSWER_SECONDS = 4;
/** Prefill steps of 2,048 tokens in eight pieces; and what a decode step of 256 sequences stores. */
const SHAPES: readonly BatchShape[] = [
  { blocksPerEvent: 16, eventsPerBatch: 8 },
  { blocksPerEvent: 1, eventsPerBatch: 16 },
];

interface LoadFigures {
  readonly direct: SteadyFigures;
  readonly relayed: SteadyFigures;
  readonly proxied: SteadyFigures;
  readonly events: EventFigures;
}

/** While streams were proxied. */
interface EventFigures {
  readonly offeredPerSecond: number;
  readonly appliedPerSecond: number;
  /** Shares of the batches sent: applied at once, applied after the flood, refused by the full queue, lost before. */
  readonly applied: number;
  readonly queued: number;
  readonly dropped: number;
  readonly lost: number;
  readonly loopP50Ms: number;
  readonly loopP99Ms: number;
  readonly loopMaxMs: number;
  readonly cpu: number;
  readonly rssBytes: number;
}

export const kvLoadPart: Part = {
  name: 'kv-load',
  run: async ({ rounds, seconds, kvRates }) => {
    const clusters = await Promise.all(Array.from({ length: PAIRS }, async () => await startMockCluster(
      { tokens: tokensIn(ANSWER_SECONDS), tokensPerSecond: TOKENS_PER_SECOND },
      { prefill: 0, decode: 0 },
    )));
    const floods = SHAPES.flatMap((shape) => kvRates.filter((rate) => rate > 0).map((rate) => ({ shape, rate })));
    const cases = kvRates.includes(0) ? [undefined, ...floods] : floods;
    const results = cases.map((): LoadFigures[] => []);
    for (let round = 0; round < rounds; round += 1) {
      for (const [at, load] of cases.entries()) results[at]?.push(await measureCase(clusters, load, seconds));
    }
    for (const cluster of clusters) await cluster.close();
    const rows = results.map((figures, at): { readonly streams: Cell[]; readonly events: Cell[] } => {
      const direct = medianOf(figures.map((f) => f.direct));
      const relayed = medianOf(figures.map((f) => f.relayed));
      const proxied = medianOf(figures.map((f) => f.proxied));
      const events = medianOf(figures.map((f) => f.events));
      const load = cases[at];
      const name = load === undefined ? 'no events' : `${load.rate.toLocaleString('en-US')} blocks/s, ${load.shape.blocksPerEvent} an event`;
      return {
        streams: [
          name, direct.chunkP50Ms, direct.chunkP99Ms, relayed.chunkP50Ms, relayed.chunkP99Ms, proxied.chunkP50Ms, proxied.chunkP99Ms,
          difference(proxied.chunkP99Ms, direct.chunkP99Ms), difference(proxied.chunkP99Ms, relayed.chunkP99Ms),
          difference(proxied.ttftP50Ms, direct.ttftP50Ms), difference(proxied.ttftP99Ms, direct.ttftP99Ms), proxied.incomplete,
        ],
        events: [
          name, events.offeredPerSecond, events.appliedPerSecond, percent(events.applied), percent(events.queued), percent(events.dropped), percent(events.lost),
          events.loopP50Ms, events.loopP99Ms, events.loopMaxMs, percent(events.cpu), events.rssBytes / 1e6,
        ],
      };
    });
    printTable(
      `${STREAMS} SSE streams of ${TOKENS_PER_SECOND} tokens/s while KV events come in from ${2 * PAIRS} instances (aim: p99 added under 2 ms)`,
      ['block stores offered', 'direct p50 ms', 'p99', 'relay p50', 'p99', 'pdscope p50', 'p99', 'added p99', 'over relay', 'added TTFT p50', 'p99', 'incomplete'],
      rows.map(({ streams }) => streams),
    );
    printTable(
      'The same: what became of the events, and the event loop of the engine',
      ['block stores offered', 'sent/s', 'applied/s', 'applied', 'queued', 'dropped', 'lost before', 'loop p50 ms', 'p99', 'max', 'CPU of a core', 'RSS MB'],
      rows.map(({ events }) => events),
    );
  },
};

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

async function measureCase(clusters: readonly MockCluster[], load: { readonly shape: BatchShape; readonly rate: number } | undefined, seconds: number): Promise<LoadFigures> {
  await using relays = await startRelays(clusters);
  await using publisher = await startPublisher({ streams: 2 * PAIRS, shape: load?.shape ?? { blocksPerEvent: 1, eventsPerBatch: 1 } });
  const engine = await startEngine(clusters, publisher);
  try {
    const direct = evenly(clusters.map((cluster) => directTarget(cluster)));
    const relayed = evenly(relays.clusters.map((cluster) => directTarget(cluster, 'relay')));
    const proxied = proxyTarget('pdscope', engine.url);
    // The first requests of a process run in the interpreter; what they cost is not what it costs.
    for (const target of [direct, relayed, proxied]) await measureRequests(target, STREAMS, WARM_UP_SECONDS);
    await connected(engine);
    const steady = async (target: Target): Promise<SteadyFigures> =>
      await measureSteadyStreams(target, STREAMS, { tokens: tokensIn(ANSWER_SECONDS), answerMs: ANSWER_SECONDS * 1000, seconds });
    if (load !== undefined) publisher.begin(load.rate);
    const beside = await steady(direct);
    const passedOn = await steady(relayed);
    const cutOff = load === undefined ? undefined : await publisher.halt();
    const before = await settled(engine);
    if (load !== undefined) publisher.begin(load.rate);
    const through = await steady(proxied);
    const after = await engine.usage();
    const report = cutOff === undefined ? undefined : await publisher.halt();
    const end = await settled(engine);
    return { direct: beside, relayed: passedOn, proxied: through, events: eventFigures({ before, after, end }, report) };
  } finally {
    await engine.stop();
  }
}

async function startEngine(clusters: readonly MockCluster[], { endpoints }: KvPublisher): Promise<ProxyHandle> {
  const urls = clusters.flatMap(({ prefill, decode }) => [{ role: 'prefill', url: prefill } as const, { role: 'decode', url: decode } as const]);
  return await startProxyProcess({
    instances: urls.map((instance, at) => ({ ...instance, kvEvents: { endpoint: endpoints[at] ?? '', topic: '', ranks: 1, mode: 'connect' } })),
  });
}

/** A target whose connections go to several, in turn. */
function evenly(targets: readonly Target[]): Target {
  let next = 0;
  return {
    name: 'direct',
    connect: async () => {
      next += 1;
      const target = targets[next % targets.length];
      if (target === undefined) throw new Error('no targets');
      return await target.connect();
    },
    cpuSinceLast: async () => undefined,
  };
}

function eventFigures({ before, after, end }: { readonly before: Usage; readonly after: Usage; readonly end: Usage }, report: PublisherReport | undefined): EventFigures {
  const from = totalsOf(before.state);
  const at = totalsOf(after.state);
  const until = totalsOf(end.state);
  const sent = Math.max(1, report?.batches ?? 0);
  const seconds = report?.seconds ?? 1;
  const applied = at.applied - from.applied;
  const queued = until.applied - at.applied;
  const dropped = until.dropped - from.dropped;
  const blocksPerBatch = report === undefined ? 0 : report.blocks / sent;
  return {
    offeredPerSecond: report === undefined ? 0 : report.blocks / seconds,
    appliedPerSecond: (applied * blocksPerBatch) / seconds,
    applied: applied / sent,
    queued: queued / sent,
    dropped: dropped / sent,
    lost: report === undefined ? 0 : Math.max(0, report.batches - applied - queued - dropped) / sent,
    loopP50Ms: after.loop.p50Ms,
    loopP99Ms: after.loop.p99Ms,
    loopMaxMs: after.loop.maxMs,
    cpu: cpuMicros(before, after) / 1e6 / (after.atMs - before.atMs) * 1000,
    rssBytes: after.rssBytes,
  };
}
