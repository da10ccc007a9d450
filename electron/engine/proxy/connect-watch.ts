/**
 * Watches legs that wait for a connection. All have the same time to get one, so the oldest is always first in the set
 * and one timer serves them all: a timer per leg would cost more than the rest of its bookkeeping.
 */
import { LinkedSet, type LinkedNode } from './linked-set.ts';

export interface Connecting extends LinkedNode {
  /** When the wait ends, on the performance clock. */
  readonly connectDeadlineMs: number;
  connectTimedOut(): void;
}

export class ConnectWatch {
  readonly #waiting = new LinkedSet<Connecting>();
  #timer: NodeJS.Timeout | undefined;

  add(leg: Connecting): void {
    this.#waiting.add(leg);
    this.#timer ??= setTimeout(() => this.#onTimer(), leg.connectDeadlineMs - performance.now());
  }

  delete(leg: Connecting): void {
    this.#waiting.delete(leg);
  }

  #onTimer(): void {
    this.#timer = undefined;
    for (let leg = this.#waiting.first; leg !== undefined; leg = this.#waiting.first) {
      const restMs = leg.connectDeadlineMs - performance.now();
      if (restMs > 0) {
        // A leg that timed out may have been repeated, which set the timer.
        this.#timer ??= setTimeout(() => this.#onTimer(), restMs);
        return;
      }
      this.#waiting.delete(leg);
      leg.connectTimedOut();
    }
  }

  close(): void {
    clearTimeout(this.#timer);
  }
}
