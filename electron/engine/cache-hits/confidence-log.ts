/**
 * The confidence of what one instance's index answered, over time: a rate over a window is as good as the worst answer
 * in it, not as the last. Only changes are kept, at most 64.
 */
import type { Confidence } from '#shared/cache.ts';

const MAX_CHANGES = 64;

export class ConfidenceLog {
  #changes: { readonly second: number; readonly confidence: Confidence }[] = [];
  #lastSecond = 0;

  add(second: number, confidence: Confidence): void {
    this.#lastSecond = second;
    if (this.#changes.at(-1)?.confidence.value === confidence.value) return;
    this.#changes.push({ second, confidence });
    if (this.#changes.length > MAX_CHANGES) this.#changes.shift();
  }

  /** The lowest of the seconds `from`..`to`, both included; undefined when nothing was answered in them. */
  lowest(from: number, to: number): Confidence | undefined {
    let lowest: Confidence | undefined;
    for (const [index, { second, confidence }] of this.#changes.entries()) {
      const until = this.#changes[index + 1]?.second ?? this.#lastSecond;
      if (until < from || second > to) continue;
      if (lowest === undefined || confidence.value < lowest.value) lowest = confidence;
    }
    return lowest;
  }
}
