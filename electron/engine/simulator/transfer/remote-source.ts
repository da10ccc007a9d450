/** The usual RemoteSource: one producer at a known side channel, one key. */
import { openRemote, tellRemote, type Peer } from './side-channel.ts';
import type { RemoteSource } from './transfer.ts';

export interface RemoteSourceInput {
  readonly peer: Peer;
  readonly key: string;
  /** Blocks to read; default: the protocol does not name them. */
  readonly blockIds?: readonly number[];
  /** How long a producer that is not ready is waited for, real milliseconds. Default 0. */
  readonly waitMs?: number;
  /** Default false. */
  readonly isRegistration?: boolean;
  /** Default false. */
  readonly hasHeartbeat?: boolean;
}

export function remoteSource(input: RemoteSourceInput): RemoteSource {
  const { peer, key, blockIds = [], waitMs = 0, isRegistration = false } = input;
  return {
    open: (check, signal) => openRemote(peer, { key, blockIds, check, waitMs, isRegistration }, signal),
    done: () => tellRemote(peer, 'done', key),
    ...(input.hasHeartbeat === true && { heartbeat: () => void tellRemote(peer, 'heartbeat', key) }),
  };
}
