/**
 * Blocks that a stream's engine stored while it held them, per second: copies that share nothing with the first. What may be
 * an announcement of reuse instead (`EventContext.isReporting`) is counted apart: the events do not tell.
 */
import { CounterSeries } from '../telemetry/windowed.ts';

export interface CopySum {
  readonly blocks: number;
  readonly tokens: number;
  /** Further blocks that were announced as found in the cache, or stored a second time. */
  readonly announced: number;
}

export class SecondCopies {
  /** Since the stream was opened first. */
  total = 0;

  readonly #blocks = new CounterSeries();
  readonly #tokens = new CounterSeries();
  readonly #announced = new CounterSeries();

  add(atUnixMs: number, tokens: number): void {
    this.total += 1;
    const second = Math.floor(atUnixMs / 1000);
    this.#blocks.add(second, 1);
    this.#tokens.add(second, tokens);
  }

  announced(atUnixMs: number): void {
    this.#announced.add(Math.floor(atUnixMs / 1000), 1);
  }

  /** In the seconds `from`..`to`, both included. */
  sum(from: number, to: number): CopySum {
    return { blocks: this.#blocks.sum(from, to), tokens: this.#tokens.sum(from, to), announced: this.#announced.sum(from, to) };
  }
}
