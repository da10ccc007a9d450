/** What a stream tells the index (stream-blocks.ts is where it goes). */
import type { KvEvent } from '../kv-events/kv-event.ts';
import type { LostRange } from './answers.ts';

/** What an event is told with. */
export interface EventContext {
  /** When blocks count as stored or removed: the publisher's clock, or the receipt where it has none. */
  readonly atUnixMs: number;
  /**
   * Stores of blocks already held may be announcements of reuse, not copies: requests ask this engine for
   * `kv_cache_report_mode: "full"` (vLLM since 2026-07). On the wire the two look the same, but for what no announcement
   * is: a store that goes on from a parent, or into another tier. Default false.
   */
  readonly isReporting?: boolean;
}

/** What a stream tells the index, in the order in which its engine said it. */
export interface BlockSink {
  /** Events that will be applied next, each by itself; may be left out. */
  expect(events: readonly KvEvent[]): void;
  /** Events that say nothing about blocks change nothing. */
  apply(event: KvEvent, context: EventContext): void;
  /** The engine started anew: what it held is gone, and kept as history of the epoch before. */
  restart(atUnixMs: number): void;
  /** Batches are missing, or were sent before the stream was watched. */
  lost(range: LostRange): void;
  /** The stream is watched no more: what it holds from now on is unknown. */
  detach(atUnixMs: number): void;
}
