/**
 * Blocks that were evicted and stored again: the latest of them in a ring, so that storms can be counted for any
 * window. No object per return.
 */
import type { StreamId } from '#shared/ids.ts';

export interface BlockReturn {
  readonly stream: StreamId;
  readonly node: number;
  /** The node's generation then; another one now means that the node is gone. */
  readonly generation: number;
  readonly tokens: number;
  readonly evictedAtUnixMs: number;
  readonly storedAtUnixMs: number;
}

export class Returns {
  /** Since start, those that the ring let go included. */
  total = 0;

  readonly #capacity: number;
  readonly #streams: (StreamId | undefined)[] = [];
  readonly #words: Uint32Array;
  readonly #times: Float64Array;

  constructor(capacity: number) {
    this.#capacity = capacity;
    this.#words = new Uint32Array(capacity * 3);
    this.#times = new Float64Array(capacity * 2);
  }

  /** Returns that the ring let go. */
  get dropped(): number {
    return Math.max(0, this.total - this.#capacity);
  }

  /** Of the oldest that is kept; undefined without any. */
  get oldestStoredAtUnixMs(): number | undefined {
    return this.total === 0 ? undefined : this.#times[(this.dropped % this.#capacity) * 2 + 1];
  }

  add(entry: BlockReturn): void {
    const place = this.total % this.#capacity;
    this.total += 1;
    this.#streams[place] = entry.stream;
    this.#words[place * 3] = entry.node;
    this.#words[place * 3 + 1] = entry.generation;
    this.#words[place * 3 + 2] = entry.tokens;
    this.#times[place * 2] = entry.evictedAtUnixMs;
    this.#times[place * 2 + 1] = entry.storedAtUnixMs;
  }

  /** Newest first. */
  *entries(): Generator<BlockReturn> {
    for (let n = this.total - 1; n >= this.dropped; n -= 1) {
      const place = n % this.#capacity;
      const stream = this.#streams[place];
      if (stream === undefined) return;
      yield {
        stream,
        node: this.#words[place * 3] ?? 0,
        generation: this.#words[place * 3 + 1] ?? 0,
        tokens: this.#words[place * 3 + 2] ?? 0,
        evictedAtUnixMs: this.#times[place * 2] ?? 0,
        storedAtUnixMs: this.#times[place * 2 + 1] ?? 0,
      };
    }
  }
}
