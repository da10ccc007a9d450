/**
 * An engine's clock against ours. Events carry the time of the engine's machine; requests are sent by the time of ours,
 * and "what was resident when the request was sent" needs both on one clock. The least delay ever seen between the two
 * is the difference of the clocks plus the shortest way, so a difference is believed when that delay is negative or
 * longer than any way is. Pure.
 */

/** Shorter delays are the way itself, batching and the event loop. */
const TOLERATED_MS = 250;

export class PublisherClock {
  #leastMs: number | undefined;

  /** A batch came live: published at `tsUnixMs` by its clock, here at `receivedAtUnixMs` by ours. */
  see(tsUnixMs: number, receivedAtUnixMs: number): void {
    const delayMs = receivedAtUnixMs - tsUnixMs;
    if (this.#leastMs === undefined || delayMs < this.#leastMs) this.#leastMs = delayMs;
  }

  /** The engine's process is another one, perhaps with its clock set right. */
  reset(): void {
    this.#leastMs = undefined;
  }

  /** By how much our clock is ahead of the engine's, ms; 0 while they seem to agree. */
  get aheadMs(): number {
    const least = this.#leastMs;
    return least === undefined || (least >= 0 && least <= TOLERATED_MS) ? 0 : least;
  }
}
