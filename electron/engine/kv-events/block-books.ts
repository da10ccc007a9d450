/**
 * What the streams ask of whoever keeps the blocks (the index, kv-index/): counts that views and confidence show. The
 * keeper is fed as an observer (kv-observer.ts), so blocks are kept in one place, and this folder keeps none.
 */
import type { StreamId } from '#shared/ids.ts';
import type { ResidentCount } from '#shared/kv.ts';

/** Of one stream, since it was attached. */
export interface StreamBooks {
  /** Removals of blocks that were not held: normal after a late attach or a gap. */
  readonly unknownRemovals: number;
  /** Blocks stored while they were held: copies. */
  readonly duplicateStores: number;
  /** Blocks that requests found in the cache and asked the engine to announce. */
  readonly announcedBlocks: number;
  /** Events that continue a block never seen stored. */
  readonly unknownParents: number;
  /** Blocks left out: the stream named too many residencies, or a chain longer than the index. */
  readonly untracked: number;
  /** Blocks given up for lack of room, though the engine has them still. */
  readonly displaced: number;
  /** Blocks held by medium, for media that were seen; a medium that was emptied counts 0. */
  counts(): ResidentCount[];
}

export interface BlockBooks {
  /** Undefined for a stream that the keeper was not told of. */
  stream(id: StreamId): StreamBooks | undefined;
}
