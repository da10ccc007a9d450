/**
 * What blocks cost from frames to the index, in a process of its own: decoded only, decoded and indexed, or through whole
 * streams as the engine runs them (queue, sequence, history of events, raw frames, observers, index): first into an empty index,
 * then into the full one, where every store displaces a block. Memory of the full index, and queries of it. Rates are of CPU time, all threads together, as the machine may be shared.
 */
import { InstanceIdSchema, streamId } from '#shared/ids.ts';
import type { StreamIdentity } from '#engine/kv-events/kv-row.ts';
import { createCacheIndex } from '#engine/cache/cache.ts';
import { ReuseAnnouncers } from '#engine/cache/reuse-announcers.ts';
import { BatchApplier } from '#engine/kv-events/batch-applier.ts';
import { decodeMessage } from '#engine/kv-events/decode-batch.ts';
import { DecodePump } from '#engine/kv-events/decode-pump.ts';
import { FrameRing } from '#engine/kv-events/frame-ring.ts';
import { IntakeTurn } from '#engine/kv-events/intake-turn.ts';
import { KvRowLog } from '#engine/kv-events/kv-row-log.ts';
import { KvStream } from '#engine/kv-events/kv-stream.ts';
import type { SubSocketOptions } from '#engine/kv-events/sub-socket.ts';
import { runOf } from '#engine/kv-events/word-run.ts';
import { finish } from '#engine/kv-index/subtree-counts.ts';
import { countHeld } from '#engine/kv-index/tree-view.ts';
import { quantile } from './figures.ts';
import { BLOCK_SIZE, BatchMaker, sequenceFrame } from './kv-frames.ts';
import type { IndexDepth, IndexFigures } from './parts/block-index.ts';

const MIB = 1024 * 1024;
const MESSAGES_PER_ROUND = 256;
const EVENTS_PER_BATCH = 8;
/** The first run in the interpreter; what they cost is not what blocks cost. */
const WARM_UP_BLOCKS = 100_000;
/** Displaced first, until the history of blocks that went is full, too: then a store takes one of each out. */
const HISTORY_BLOCKS = 300_000;
const FULL_BLOCKS = 500_000;
/** Numbers of blocks that each stream has for its own. */
const BLOCKS_PER_STREAM = 2 ** 24;
const TOPIC = new Uint8Array(0);
const [depth = 'index', blocksPerEventText = '16', streamsText = '8', totalText = '1000000'] = process.argv.slice(2);
const blocksPerEvent = Number(blocksPerEventText);
const total = Number(totalText);

const startRss = process.memoryUsage().rss;
const { index, observer } = createCacheIndex(1_000_000, new ReuseAnnouncers());
const pump = new DecodePump({ messages: 20_000, bytes: 1024 * MIB });
const rows = new KvRowLog({ capacity: 50_000, maxBytes: 64 * MIB, dropped: () => 0 });
const frames = new FrameRing();
const makers: Readonly<Record<IndexDepth, (identity: StreamIdentity) => Taker>> = { decode: decodeOnly, index: decodeAndIndex, stream: wholeStream };
const sources = Array.from({ length: Number(streamsText) }, (_, at) => {
  const instance = InstanceIdSchema.parse(`i${at}`);
  return { seq: 0, maker: new BatchMaker({ blocksPerEvent, eventsPerBatch: EVENTS_PER_BATCH }, at * BLOCKS_PER_STREAM), take: makers[depth as IndexDepth]({ id: streamId(instance, 0), instance, instanceName: instance, rank: 0 }) };
});

type Taker = (message: readonly Uint8Array[]) => void;

function decodeOnly(): Taker {
  return (message) => {
    decodeMessage(message);
  };
}

function decodeAndIndex(identity: StreamIdentity): Taker {
  const stream = index.open(identity);
  const applier = new BatchApplier({
    onEpoch: () => undefined,
    onNotice: () => undefined,
    onGap: () => false,
    onLost: () => undefined,
    onEvent: (context, event) => stream.apply(event, { atUnixMs: context.tsUnixMs ?? 0 }),
  });
  return (message) => {
    applier.apply(message, { receivedAtUnixMs: 0, isReconnected: false, droppedBefore: 0 });
  };
}

/** A stream without its socket: what a socket would hand over goes in by hand. */
function wholeStream(identity: StreamIdentity): Taker {
  let socket: SubSocketOptions | undefined;
  const stream = new KvStream({
    identity, endpoint: 'tcp://127.0.0.1:1', mode: 'bind', topic: '', pump, intake: new IntakeTurn(), replayTurn: new IntakeTurn(2), log: rows, frames, books: index, observer,
    bindings: {
      subscribe: (options) => {
        socket = options;
        return { open: () => undefined, close: () => Promise.resolve() };
      },
      unclaimed: () => [],
    },
    onGap: () => undefined,
    onPhase: () => undefined,
  });
  stream.open();
  return (message) => socket?.onMessage(message);
}

interface Cost {
  readonly perCpuSecond: number;
  readonly perSecond: number;
}

/** Stores `count` blocks, and measures all but the first `unmeasured`. */
async function store(count: number, unmeasured: number): Promise<Cost> {
  let cpuMicros = 0;
  let wallMs = 0;
  let measured = 0;
  for (let blocks = 0; blocks < count;) {
    const round = Array.from({ length: MESSAGES_PER_ROUND }, (_, at) => {
      const source = sources[at % sources.length];
      if (source === undefined) throw new Error('no streams');
      source.seq += 1;
      return { source, message: [TOPIC, sequenceFrame(source.seq - 1), source.maker.next()] };
    });
    const startCpu = process.cpuUsage();
    const startMs = performance.now();
    for (const { source, message } of round) source.take(message);
    while (pump.queuedMessages > 0) {
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    const { user, system } = process.cpuUsage(startCpu);
    const stored = round.length * EVENTS_PER_BATCH * blocksPerEvent;
    blocks += stored;
    if (blocks <= unmeasured) continue;
    cpuMicros += user + system;
    wallMs += performance.now() - startMs;
    measured += stored;
  }
  return { perCpuSecond: (measured / cpuMicros) * 1e6, perSecond: (measured / wallMs) * 1000 };
}

const filling = await store(total, WARM_UP_BLOCKS);
const fullRss = process.memoryUsage().rss;
// Without the garbage of decoding. Only under --expose-gc.
globalThis.gc?.();
const { heapUsed, arrayBuffers } = process.memoryUsage();
const displacing = depth === 'decode' ? undefined : await store(HISTORY_BLOCKS + FULL_BLOCKS, HISTORY_BLOCKS);
const laterRss = process.memoryUsage().rss;

/** An 8k prompt that every stream holds, and one more token. */
const PROMPT_BLOCKS = 512;
const prompt = Uint32Array.from({ length: PROMPT_BLOCKS * BLOCK_SIZE + 1 }, (_, token) => (token * 31 + 17) % 150_000);

function storePrompt(): void {
  for (const [at, stream] of index.streams.entries()) {
    const words = new Uint32Array(PROMPT_BLOCKS * 2);
    for (let block = 0; block < PROMPT_BLOCKS; block += 1) {
      words[block * 2] = at + 1;
      words[block * 2 + 1] = block;
    }
    stream.apply({
      kind: 'stored', hashes: { ...runOf(words), digests: undefined, isSigned: false }, parent: undefined, tokens: runOf(prompt.subarray(0, PROMPT_BLOCKS * BLOCK_SIZE)), blockSize: BLOCK_SIZE,
      loraId: undefined, loraName: undefined, medium: 'GPU', groupIdx: 0, specKind: 'full_attention', slidingWindow: undefined, locality: undefined, ownership: undefined,
      sessionId: undefined, cacheSalt: undefined, extraKeys: undefined, isBigram: false,
    }, { atUnixMs: 1_700_000_000_000 });
  }
}

interface Times {
  readonly cpuMs: readonly number[];
  readonly clockMs: readonly number[];
}

function times(rounds: number, run: () => void): Times {
  for (let warmUp = 0; warmUp < 20; warmUp += 1) run();
  const cpuMs: number[] = [];
  const clockMs: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const startMs = performance.now();
    const startCpu = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(startCpu);
    clockMs.push(performance.now() - startMs);
    cpuMs.push((user + system) / 1000);
  }
  return { cpuMs, clockMs };
}

function queries(): Partial<IndexFigures> {
  storePrompt();
  const prefix = times(2000, () => {
    index.prefix(prompt, { withDivergence: false });
  });
  const explained = times(200, () => {
    index.explain(prompt, streamId(InstanceIdSchema.parse('i0'), 0));
  });
  const counted = times(5, () => {
    finish(countHeld(index.graph, undefined));
  });
  return {
    prefixP50Ms: quantile(prefix.cpuMs, 0.5), prefixP99Ms: quantile(prefix.cpuMs, 0.99), prefixClockP99Ms: quantile(prefix.clockMs, 0.99),
    explainP50Ms: quantile(explained.cpuMs, 0.5), countMs: quantile(counted.cpuMs, 0.5),
  };
}

const figures: IndexFigures = {
  ...filling,
  held: index.size,
  startRssBytes: startRss,
  rssBytes: fullRss,
  bytesPerBlock: depth === 'decode' ? undefined : (fullRss - startRss) / index.size,
  ...(globalThis.gc !== undefined && { heapBytes: heapUsed, bufferBytes: arrayBuffers, keptPerBlock: depth === 'decode' ? undefined : (heapUsed + arrayBuffers) / index.size }),
  ...(displacing !== undefined && { fullPerCpuSecond: displacing.perCpuSecond, fullPerSecond: displacing.perSecond, laterRssBytes: laterRss }),
  ...(depth === 'index' && queries()),
};
process.send?.(figures, () => process.exit(0));
if (process.send === undefined) console.log(figures);
