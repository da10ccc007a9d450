/** What happened to one KV-event stream, for as long as its rows in the KV events view are not kept: few and far between. */

/** What became of a gap. Counts are batches; `filled` and `lost` make up the gap. */
export type KvGapFate =
  | { readonly state: 'asking' }
  /** No replay was asked (none configured, or waiting to ask again): all are lost. */
  | { readonly state: 'not-asked' }
  | { readonly state: 'settled'; readonly filled: number; readonly lost: number; readonly afterMs: number; readonly reason?: string }
  /** Sent before the stream was joined, so never missed. */
  | { readonly state: 'unseen'; readonly reason: string };

/** `atUnixMs`: when it was seen here. Of batches, the numbers `from` to `to`, both included. */
export type KvNote =
  | { readonly kind: 'connected'; readonly atUnixMs: number }
  /** `lost`: the connection broke. `failed`: the socket could not be made. */
  | { readonly kind: 'disconnected'; readonly atUnixMs: number; readonly state: 'lost' | 'failed'; readonly reason?: string }
  /** `refused`: of the missing batches, at most, refused by pdscope's own full queue. */
  | { readonly kind: 'gap'; readonly atUnixMs: number; readonly from: number; readonly to: number; readonly epoch: number; readonly refused: number; readonly fate: KvGapFate }
  /** Batches that came by replay, or are lost, without a live batch that showed a gap. */
  | { readonly kind: 'filled' | 'lost'; readonly atUnixMs: number; readonly text: string }
  /** `epoch` is over. */
  | { readonly kind: 'restart'; readonly atUnixMs: number; readonly epoch: number; readonly text: string }
  /** AllBlocksCleared, `times` in a row with nothing else noted between them; `atUnixMs` is the last, `firstAtUnixMs` the first. */
  | { readonly kind: 'cleared'; readonly atUnixMs: number; readonly firstAtUnixMs: number; readonly times: number };

/** Answer of `kv.notes`. */
export interface KvNotes {
  /** Newest first. */
  readonly notes: readonly KvNote[];
  /** Older notes that are not kept. */
  readonly older: number;
}
