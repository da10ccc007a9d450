/**
 * What the index cannot know of one stream: batches lost in gaps, and what was stored before the stream was watched.
 * Bounded: beyond 64 ranges the two oldest become one that covers both, which claims less, never more.
 */
import type { LostRange } from './answers.ts';

const MAX_RANGES = 64;

export class Coverage {
  /** The latest range has no batch after it yet. */
  isOpen = false;
  /** Counts ranges told. */
  version = 0;

  #ranges: LostRange[] = [];

  get ranges(): readonly LostRange[] {
    return this.#ranges;
  }

  lost(range: LostRange): void {
    this.#ranges.push(range);
    this.version += 1;
    if (range.untilUnixMs === undefined) this.isOpen = true;
    const [first, second, ...rest] = this.#ranges;
    if (this.#ranges.length <= MAX_RANGES || first === undefined || second === undefined) return;
    const { sinceUnixMs: _, ...end } = second;
    this.#ranges = [{ ...end, cause: first.cause, epoch: first.epoch, from: first.from, ...(first.sinceUnixMs !== undefined && { sinceUnixMs: first.sinceUnixMs }) }, ...rest];
  }

  /** A batch came: what is lost is lost before it. */
  close(atUnixMs: number): void {
    this.isOpen = false;
    this.#ranges = this.#ranges.map((range) => (range.untilUnixMs === undefined ? { ...range, untilUnixMs: atUnixMs } : range));
  }

  /** The latest range lost after `sinceUnixMs` and before `untilUnixMs`. */
  between(sinceUnixMs: number, untilUnixMs: number): LostRange | undefined {
    return this.#ranges.findLast((range) => (range.untilUnixMs ?? Number.POSITIVE_INFINITY) > sinceUnixMs && (range.sinceUnixMs ?? Number.NEGATIVE_INFINITY) <= untilUnixMs);
  }
}
