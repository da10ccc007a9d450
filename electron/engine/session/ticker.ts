/**
 * One clock for all sessions of an engine: rows every ROW_INTERVAL_MS, the state every STATE_INTERVAL_MS, built once
 * for all who show it. It runs only while somebody listens, so an engine nobody watches pays nothing.
 */
import type { EngineState } from '#shared/state.ts';
import { ROW_INTERVAL_MS, STATE_INTERVAL_MS } from '#shared/wire.ts';

export interface TickListener {
  readonly wantsState: boolean;
  onRowTick(): void;
  onStateTick(state: EngineState): void;
}

/** What the clock reads. Engine fits. */
export interface StateSource {
  state(): EngineState;
}

export interface TickerIntervals {
  readonly rowMs: number;
  readonly stateMs: number;
}

export class Ticker {
  readonly #source: StateSource;
  readonly #intervals: TickerIntervals;
  readonly #listeners = new Set<TickListener>();
  #rowTimer: NodeJS.Timeout | undefined;
  #stateTimer: NodeJS.Timeout | undefined;

  constructor(source: StateSource, intervals: TickerIntervals = { rowMs: ROW_INTERVAL_MS, stateMs: STATE_INTERVAL_MS }) {
    this.#source = source;
    this.#intervals = intervals;
  }

  get isRunning(): boolean {
    return this.#rowTimer !== undefined;
  }

  add(listener: TickListener): void {
    this.#listeners.add(listener);
    this.#rowTimer ??= setInterval(() => {
      for (const each of this.#listeners) each.onRowTick();
    }, this.#intervals.rowMs);
    this.#stateTimer ??= setInterval(() => this.#tickState(), this.#intervals.stateMs);
  }

  remove(listener: TickListener): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size > 0) return;
    clearInterval(this.#rowTimer);
    clearInterval(this.#stateTimer);
    this.#rowTimer = undefined;
    this.#stateTimer = undefined;
  }

  #tickState(): void {
    const watching = Array.from(this.#listeners).filter((listener) => listener.wantsState);
    if (watching.length === 0) return;
    const state = this.#source.state();
    for (const listener of watching) listener.onStateTick(state);
  }
}

const tickers = new WeakMap<StateSource, Ticker>();

/** The clock of this engine; the same one for every session. */
export function tickerOf(source: StateSource): Ticker {
  const known = tickers.get(source);
  if (known !== undefined) return known;
  const ticker = new Ticker(source);
  tickers.set(source, ticker);
  return ticker;
}
