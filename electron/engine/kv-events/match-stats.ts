/** What a watch's filter lets through, counted: beside the totals of everything (watch-stats.ts), which no filter changes. */
import { hashCount } from './block-hashes.ts';
import type { WatchRecord } from './watch.ts';
import { noEventsByKind, type EventsByKind } from './watch-stats.ts';

/** Since the start of the watch. */
export interface MatchStats {
  readonly filter: string;
  readonly events: number;
  readonly eventsByKind: Readonly<EventsByKind>;
  /** Gaps, what a replay filled of them, losses, restarts and errors. */
  readonly notices: number;
  /** Of whole events: a filter chooses events, not blocks of them. */
  readonly blocksStored: number;
  readonly blocksRemoved: number;
}

export class MatchCounter {
  readonly #filter: string;
  readonly #eventsByKind = noEventsByKind();
  #events = 0;
  #notices = 0;
  #blocksStored = 0;
  #blocksRemoved = 0;

  /** `filter`: as it was typed. */
  constructor(filter: string) {
    this.#filter = filter;
  }

  /** Counts a record that matches. */
  add({ event }: WatchRecord): void {
    switch (event.kind) {
      case 'gap': case 'filled': case 'lost': case 'restart': case 'error':
        this.#notices += 1;
        return;
      case 'stored': this.#blocksStored += hashCount(event.hashes); break;
      case 'removed': this.#blocksRemoved += hashCount(event.hashes); break;
      case 'cleared': case 'unknown': case 'bad': break;
    }
    this.#events += 1;
    this.#eventsByKind[event.kind] += 1;
  }

  stats(): MatchStats {
    return { filter: this.#filter, events: this.#events, eventsByKind: { ...this.#eventsByKind }, notices: this.#notices, blocksStored: this.#blocksStored, blocksRemoved: this.#blocksRemoved };
  }
}
