/**
 * An engine's clock against ours. Events carry the time of the engine's machine; requests are sent by the time of ours,
 * and "what was resident when the request was sent" needs both on one clock. The least delay seen lately between the two
 * is the difference of the clocks plus the shortest way, so a difference is believed when that delay is negative or
 * longer than any way is. Pure.
 *
 * Lately: in this window and the one before. A clock that is set right, or one batch with a time from nowhere, is forgotten
 * with its windows; an engine that says little keeps its own, as few batches do not tell the shortest way.
 */

/** Shorter delays are the way itself, batching and the event loop. */
const TOLERATED_MS = 250;

/** A window ends when it is both as old, and of as many batches. */
const WINDOW_MS = 300_000;
const WINDOW_BATCHES = 100;

export class PublisherClock {
  #leastMs: number | undefined;
  #leastBeforeMs: number | undefined;
  #beganAtUnixMs = 0;
  #batches = 0;

  /** A batch came live: published at `tsUnixMs` by its clock, here at `receivedAtUnixMs` by ours. */
  see(tsUnixMs: number, receivedAtUnixMs: number): void {
    if (this.#batches >= WINDOW_BATCHES && receivedAtUnixMs - this.#beganAtUnixMs >= WINDOW_MS) {
      this.#leastBeforeMs = this.#leastMs;
      this.#leastMs = undefined;
      this.#batches = 0;
    }
    if (this.#batches === 0) this.#beganAtUnixMs = receivedAtUnixMs;
    this.#batches += 1;
    const delayMs = receivedAtUnixMs - tsUnixMs;
    if (this.#leastMs === undefined || delayMs < this.#leastMs) this.#leastMs = delayMs;
  }

  /** The engine's process is another one, perhaps with its clock set right. */
  reset(): void {
    this.#leastMs = undefined;
    this.#leastBeforeMs = undefined;
    this.#batches = 0;
  }

  /** By how much our clock is ahead of the engine's, ms; 0 while they seem to agree. */
  get aheadMs(): number {
    const least = this.#leastMs === undefined ? undefined : Math.min(this.#leastMs, this.#leastBeforeMs ?? Number.POSITIVE_INFINITY);
    return least === undefined || (least >= 0 && least <= TOLERATED_MS) ? 0 : least;
  }
}
