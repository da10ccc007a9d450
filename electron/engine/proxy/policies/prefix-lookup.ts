/** What routing by prefix needs of the block index: a port, so that the proxy knows neither streams nor hashes. */
import type { InstanceId } from '#shared/ids.ts';
import type { Instance } from '../../fleet/instance.ts';

export interface PrefixQuery {
  readonly tokens: Uint32Array;
  /** The request's `model`, which may name an adapter. */
  readonly model?: string;
  /** The request's `cache_salt`. */
  readonly salt?: string;
  /** X-Request-Id. */
  readonly requestId: string;
}

/** What one instance holds of a prompt; of several data-parallel ranks, one entry each. */
export interface InstancePrefix {
  readonly instance: InstanceId;
  /** Absent when the instance has one rank. */
  readonly rank?: number;
  /** From the first token on, whole blocks. */
  readonly matchedTokens: number;
  readonly matchedBlocks: number;
  /** How far the events that say so can be trusted, 0..1. */
  readonly confidence: number;
  /** The heaviest reason why that is not 1, in words. */
  readonly doubt?: string;
}

export interface PrefixLookup {
  /** Whether any of these holds a block, as its events tell; if none does, no prompt needs to be looked up. As cheap as a look at a list. */
  holdsAny(instances: readonly Pick<Instance, 'id'>[]): boolean;
  /**
   * An entry for every stream that is watched, also one that holds nothing of the prompt; instances without a stream
   * have none. Synchronous and on the way of a request: about a millisecond at most. Does not throw.
   */
  prefix(query: PrefixQuery): readonly InstancePrefix[];
}
