/**
 * The confidence of what one instance's index answered, over time: a rate over a window is as good as the worst answer
 * in it, not as the last. Only changes are kept, at most 64.
 */
import type { Confidence } from '#shared/cache.ts';

const MAX_CHANGES = 64;

export class ConfidenceLog {
  /** From the first to the last answer that had it. */
  readonly #changes: { readonly from: number; to: number; readonly confidence: Confidence }[] = [];

  add(second: number, confidence: Confidence): void {
    const last = this.#changes.at(-1);
    if (last?.confidence.value === confidence.value) {
      last.to = second;
      return;
    }
    this.#changes.push({ from: second, to: second, confidence });
    if (this.#changes.length > MAX_CHANGES) this.#changes.shift();
  }

  /** The lowest of the seconds `from`..`to`, both included; undefined when nothing was answered in them. */
  lowest(from: number, to: number): Confidence | undefined {
    let lowest: Confidence | undefined;
    for (const { from: first, to: last, confidence } of this.#changes) {
      if (last < from || first > to) continue;
      if (lowest === undefined || confidence.value < lowest.value) lowest = confidence;
    }
    return lowest;
  }
}
