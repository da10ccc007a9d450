/**
 * The latest stores of every stream, as which blocks one event stored and on which block they follow: from them the tokens
 * of a prompt are read that no instance could tell (event-tokens.ts). An engine stores the blocks of one request per event
 * (vllm/v1/core/block_pool.py, cache_full_blocks), so an event belongs to one request, though it does not say to which.
 *
 * Stands between the streams and the index, which is told first. Called from within decoding: some words per event are
 * written into a ring of fixed size, no object is made. Only stores on the GPU whose tokens pair with hashes are kept.
 */
import type { StreamId } from '#shared/ids.ts';
import type { BatchContext, EpochChange } from '../kv-events/batch-applier.ts';
import { hashCount, highWord, lowWord } from '../kv-events/block-hashes.ts';
import type { KvEvent } from '../kv-events/kv-event.ts';
import type { KvObserver } from '../kv-events/kv-observer.ts';
import type { StreamIdentity } from '../kv-events/kv-row.ts';
import type { GapRange } from '../kv-events/stream-tracker.ts';
import { isPairedKind } from '../kv-index/residency.ts';
import { normaliseMedium } from '../kv-index/residency.ts';

/** One event: blocks that follow each other. */
export interface RecentStore {
  /** The block that they follow, as two words of its hash; absent when they begin at token 0. */
  readonly parent: readonly [number, number] | undefined;
  /** The last of them. */
  readonly last: readonly [number, number];
  readonly blocks: number;
  readonly sessionId: string | undefined;
}

/** What was stored in a span of time; `isWhole` is false when more was than is remembered. */
export interface StoredSpan {
  readonly stores: readonly RecentStore[];
  readonly isWhole: boolean;
}

/** Events remembered per stream. */
const CAPACITY = 512;

interface Ring {
  /** When they came, by our clock; replayed ones: when they were published. */
  readonly at: Float64Array;
  readonly hasParent: Uint8Array;
  /** High and low word of the parent and of the last block. */
  readonly hashes: Uint32Array;
  readonly blocks: Uint32Array;
  readonly sessions: (string | undefined)[];
  written: number;
  /** When the latest event was published, by our clock. */
  heardUntilUnixMs: number;
}

export class RecentStores implements KvObserver {
  readonly #to: KvObserver;
  readonly #rings = new Map<StreamId, Ring>();

  constructor(to: KvObserver) {
    this.#to = to;
  }

  /** What a stream stored between two times, oldest first. */
  between(stream: StreamId, fromUnixMs: number, toUnixMs: number): StoredSpan {
    const ring = this.#rings.get(stream);
    if (ring === undefined) return { stores: [], isWhole: true };
    const stores: RecentStore[] = [];
    const first = Math.max(0, ring.written - CAPACITY);
    for (let event = first; event < ring.written; event += 1) {
      const slot = event % CAPACITY;
      const at = ring.at[slot] ?? 0;
      if (at < fromUnixMs || at > toUnixMs) continue;
      const { hashes } = ring;
      const word = (offset: number): number => hashes[slot * 4 + offset] ?? 0;
      stores.push({
        parent: ring.hasParent[slot] === 1 ? [word(0), word(1)] : undefined,
        last: [word(2), word(3)],
        blocks: ring.blocks[slot] ?? 0,
        sessionId: ring.sessions[slot],
      });
    }
    return { stores, isWhole: first === 0 || (ring.at[first % CAPACITY] ?? 0) < fromUnixMs };
  }

  /** When the latest event that came was published, by our clock; minus infinity before any. */
  heardUntil(stream: StreamId): number {
    return this.#rings.get(stream)?.heardUntilUnixMs ?? Number.NEGATIVE_INFINITY;
  }

  onOpen(stream: StreamIdentity): void {
    this.#rings.set(stream.id, emptyRing());
    this.#to.onOpen?.(stream);
  }

  onBatch(stream: StreamIdentity, events: readonly KvEvent[]): void {
    this.#to.onBatch?.(stream, events);
  }

  onEvent(stream: StreamIdentity, context: BatchContext, event: KvEvent): void {
    this.#to.onEvent?.(stream, context, event);
    const ring = this.#rings.get(stream.id);
    const publishedAtUnixMs = context.tsUnixMs ?? context.receivedAtUnixMs;
    if (ring !== undefined && publishedAtUnixMs > ring.heardUntilUnixMs) ring.heardUntilUnixMs = publishedAtUnixMs;
    if (event.kind !== 'stored' || event.blockSize === 0) return;
    const { hashes, parent } = event;
    const blocks = hashCount(hashes);
    const isPaired = blocks > 0 && event.tokens.length === blocks * event.blockSize && isPairedKind(event.specKind);
    if (ring === undefined || !isPaired || normaliseMedium(event.medium) !== 'GPU') return;
    const slot = ring.written % CAPACITY;
    ring.written += 1;
    ring.at[slot] = context.isReplayed ? (context.tsUnixMs ?? context.receivedAtUnixMs) : context.receivedAtUnixMs;
    ring.hasParent[slot] = parent === undefined ? 0 : 1;
    ring.hashes[slot * 4] = parent === undefined ? 0 : highWord(parent, 0);
    ring.hashes[slot * 4 + 1] = parent === undefined ? 0 : lowWord(parent, 0);
    ring.hashes[slot * 4 + 2] = highWord(hashes, blocks - 1);
    ring.hashes[slot * 4 + 3] = lowWord(hashes, blocks - 1);
    ring.blocks[slot] = blocks;
    // Written only where an engine sends any: a slot's text outlives its event by one turn of the ring at most.
    if (event.sessionId !== undefined || ring.sessions[slot] !== undefined) ring.sessions[slot] = event.sessionId;
  }

  onEpoch(stream: StreamIdentity, change: EpochChange): void {
    // What the engine stored in its life before names nothing any more.
    if (this.#rings.has(stream.id)) this.#rings.set(stream.id, emptyRing());
    this.#to.onEpoch?.(stream, change);
  }

  onLost(stream: StreamIdentity, gap: GapRange): void {
    this.#to.onLost?.(stream, gap);
  }

  onClose(stream: StreamIdentity): void {
    this.#rings.delete(stream.id);
    this.#to.onClose?.(stream);
  }
}

function emptyRing(): Ring {
  return { at: new Float64Array(CAPACITY), hasParent: new Uint8Array(CAPACITY), hashes: new Uint32Array(CAPACITY * 4), blocks: new Uint32Array(CAPACITY), sessions: [], written: 0, heardUntilUnixMs: Number.NEGATIVE_INFINITY };
}
