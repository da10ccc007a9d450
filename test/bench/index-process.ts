/** The block index alone, in its own process: stores decoded and indexed from frames, memory, queries. Sends its figures to the parent. */
import { encode } from '@msgpack/msgpack';
import { InstanceIdSchema, streamId } from '#shared/ids.ts';
import { BatchApplier } from '#engine/kv-events/batch-applier.ts';
import { decodeMessage } from '#engine/kv-events/decode-batch.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import type { StreamBlocks } from '#engine/kv-index/stream-blocks.ts';
import { countHeld } from '#engine/kv-index/tree-view.ts';
import { finish } from '#engine/kv-index/subtree-counts.ts';
import { quantile } from './figures.ts';
import type { IndexFigures } from './index-scenario.ts';

const BLOCK_SIZE = 16;
const EVENTS_PER_BATCH = 8;
const [blocksPerEventText = '16', streamsText = '8', totalText = '1000000'] = process.argv.slice(2);
const blocksPerEvent = Number(blocksPerEventText);
const total = Number(totalText);

interface Source {
  readonly stream: StreamBlocks;
  readonly applier: BatchApplier;
  seq: number;
}

const startRss = process.memoryUsage().rss;
const index = new KvIndex();
const sources = Array.from({ length: Number(streamsText) }, (_, at) => open(at));
let prompts = 0;
let hashes = 0n;

function open(at: number): Source {
  const instance = InstanceIdSchema.parse(`i${at}`);
  const stream = index.open({ id: streamId(instance, 0), instance, instanceName: instance, rank: 0 });
  const applier = new BatchApplier({
    onEpoch: () => undefined,
    onNotice: () => undefined,
    onGap: () => false,
    onLost: () => undefined,
    onEvent: (context, event) => stream.apply(event, { atUnixMs: context.tsUnixMs ?? 0 }),
  });
  return { stream, applier, seq: 0 };
}

/** One prompt of `EVENTS_PER_BATCH * blocksPerEvent` blocks, stored in as many events, as frames on the wire. */
function frames(source: Source): Uint8Array[] {
  prompts += 1;
  let parent: bigint | null = null;
  const events = Array.from({ length: EVENTS_PER_BATCH }, (_, event) => {
    const blockHashes = Array.from({ length: blocksPerEvent }, () => {
      hashes += 1n;
      return BigInt.asUintN(64, hashes * 0x9e37_79b9_7f4a_7c15n);
    });
    const tokens = Array.from({ length: blocksPerEvent * BLOCK_SIZE }, (_, token) => (prompts * 7919 + event * 131 + token * 977) % 150_000);
    const stored = {
      type: 'BlockStored', block_hashes: blockHashes, parent_block_hash: parent, token_ids: tokens, block_size: BLOCK_SIZE,
      lora_id: null, medium: 'GPU', lora_name: null, group_idx: 0, kv_cache_spec_kind: 'full_attention',
    };
    parent = blockHashes.at(-1) ?? null;
    return stored;
  });
  return seal(source, events);
}

function seal(source: Source, events: readonly object[]): Uint8Array[] {
  const seq = Buffer.alloc(8);
  seq.writeBigUInt64BE(BigInt(source.seq));
  source.seq += 1;
  return [new Uint8Array(0), seq, encode([1_700_000_000 + source.seq / 1000, events, 0], { useBigInt64: true })];
}

let decodedMs = 0;
let bothMs = 0;
let blocks = 0;
while (blocks < total) {
  const messages = Array.from({ length: 200 }, (_, at) => {
    const source = sources[at % sources.length];
    if (source === undefined) throw new Error('no streams');
    return { source, frames: frames(source) };
  });
  const startMs = performance.now();
  for (const message of messages) decodeMessage(message.frames);
  const midMs = performance.now();
  for (const message of messages) message.source.applier.apply(message.frames, { receivedAtUnixMs: 0, isReconnected: false, droppedBefore: 0 });
  decodedMs += midMs - startMs;
  bothMs += performance.now() - midMs;
  blocks += messages.length * EVENTS_PER_BATCH * blocksPerEvent;
}
const fullRss = process.memoryUsage().rss;

/** An 8k prompt that every stream holds, and one more token. */
const PROMPT_BLOCKS = 512;
const prompt = Uint32Array.from({ length: PROMPT_BLOCKS * BLOCK_SIZE + 1 }, (_, token) => (token * 31 + 17) % 150_000);
for (const [at, { stream }] of sources.entries()) {
  const words = new Uint32Array(PROMPT_BLOCKS * 2);
  for (let block = 0; block < PROMPT_BLOCKS; block += 1) {
    words[block * 2] = at + 1;
    words[block * 2 + 1] = block;
  }
  stream.apply({
    kind: 'stored', hashes: { words, digests: undefined, isSigned: false }, parent: undefined, tokens: prompt.subarray(0, PROMPT_BLOCKS * BLOCK_SIZE), blockSize: BLOCK_SIZE,
    loraId: undefined, loraName: undefined, medium: 'GPU', groupIdx: 0, specKind: 'full_attention', slidingWindow: undefined, locality: undefined, ownership: undefined,
    sessionId: undefined, cacheSalt: undefined, extraKeys: undefined, isBigram: false,
  }, { atUnixMs: 1_700_000_000_000 });
}

function times(rounds: number, run: () => void): number[] {
  for (let warmUp = 0; warmUp < 20; warmUp += 1) run();
  return Array.from({ length: rounds }, () => {
    const startMs = performance.now();
    run();
    return performance.now() - startMs;
  });
}

const prefix = times(500, () => {
  index.prefix(prompt, { withDivergence: false });
});
const explained = times(200, () => {
  index.explain(prompt, streamId(InstanceIdSchema.parse('i0'), 0));
});
const counted = times(5, () => {
  finish(countHeld(index.graph, undefined));
});

const figures: IndexFigures = {
  decodedPerSecond: (blocks / decodedMs) * 1000,
  indexedPerSecond: (blocks / bothMs) * 1000,
  held: index.size,
  nodes: index.totals().nodes,
  startRssBytes: startRss,
  rssBytes: fullRss,
  bytesPerBlock: (fullRss - startRss) / index.size,
  prefixP50Ms: quantile(prefix, 0.5) ?? 0,
  prefixP99Ms: quantile(prefix, 0.99) ?? 0,
  explainP50Ms: quantile(explained, 0.5) ?? 0,
  countMs: quantile(counted, 0.5) ?? 0,
};
process.send?.(figures, () => process.exit(0));
