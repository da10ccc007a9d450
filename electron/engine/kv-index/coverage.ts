/**
 * What the index cannot know of one stream: batches lost in gaps, and what was stored before the stream was watched.
 * Bounded: beyond 64 ranges the two oldest become one that covers both, which claims less, never more.
 */
import type { LostRange } from './answers.ts';

const MAX_RANGES = 64;

export class Coverage {
  #ranges: LostRange[] = [];

  get ranges(): readonly LostRange[] {
    return this.#ranges;
  }

  lost(range: LostRange): void {
    this.#ranges.push(range);
    if (this.#ranges.length <= MAX_RANGES) return;
    const [first, second, ...rest] = this.#ranges;
    if (first === undefined || second === undefined) return;
    this.#ranges = [{ ...second, from: first.from, epoch: first.epoch, cause: first.cause, ...sinceOf(first) }, ...rest];
  }

  /** Batches `from` to `to` of a life of the engine came after all; in order, or what they say would not be the truth. */
  filled(epoch: number, from: number, to: number): void {
    this.#ranges = this.#ranges.flatMap((range) => {
      if (range.epoch !== epoch || to < range.from || from > range.to) return [range];
      const left = from > range.from ? [{ ...range, to: from - 1 }] : [];
      const right = to < range.to ? [{ ...range, from: to + 1 }] : [];
      return [...left, ...right];
    });
  }

  /** The latest range lost after `sinceUnixMs` and before `untilUnixMs`. */
  between(sinceUnixMs: number, untilUnixMs: number): LostRange | undefined {
    return this.#ranges.findLast((range) => range.untilUnixMs > sinceUnixMs && (range.sinceUnixMs ?? Number.NEGATIVE_INFINITY) <= untilUnixMs);
  }
}

function sinceOf({ sinceUnixMs }: LostRange): { readonly sinceUnixMs?: number } {
  return sinceUnixMs === undefined ? {} : { sinceUnixMs };
}
