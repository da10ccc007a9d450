/** A record of a watch as the row that the KV events view would show, so that one filter grammar serves both. */
import type { KvRow } from '#shared/kv.ts';
import { KvRowLog } from './kv-row-log.ts';
import type { StreamIdentity } from './kv-row.ts';
import { watchedStream, type WatchRecord } from './watch.ts';

export class WatchRows {
  readonly #log = new KvRowLog({ capacity: 1, maxBytes: 1, tailTokens: 2 ** 20, dropped: () => 0 });
  readonly #streams = new Map<number, StreamIdentity>();

  /** The row; its number counts the records asked for. */
  rowOf({ rank, event, epoch, seq, tsUnixMs, receivedAtUnixMs }: WatchRecord): KvRow {
    this.#log.append({ stream: this.#stream(rank), epoch, seq, tsUnixMs, receivedAtUnixMs }, event);
    const [row] = this.#log.rows();
    if (row === undefined) throw new Error('the newest row is always kept');
    return row;
  }

  #stream(rank: number): StreamIdentity {
    let stream = this.#streams.get(rank);
    if (stream === undefined) {
      stream = watchedStream(rank);
      this.#streams.set(rank, stream);
    }
    return stream;
  }
}
