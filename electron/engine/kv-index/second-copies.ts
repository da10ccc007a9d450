/** Blocks that a stream's engine stored while it held them, per second: copies that share nothing with the first. */
import { CounterSeries } from '../telemetry/windowed.ts';

export class SecondCopies {
  /** Since the stream was opened. */
  total = 0;

  readonly #blocks = new CounterSeries();
  readonly #tokens = new CounterSeries();

  add(atUnixMs: number, tokens: number): void {
    this.total += 1;
    const second = Math.floor(atUnixMs / 1000);
    this.#blocks.add(second, 1);
    this.#tokens.add(second, tokens);
  }

  /** In the seconds `from`..`to`, both included. */
  sum(from: number, to: number): { readonly blocks: number; readonly tokens: number } {
    return { blocks: this.#blocks.sum(from, to), tokens: this.#tokens.sum(from, to) };
  }
}
