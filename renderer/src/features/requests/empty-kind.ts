/** Which of the reasons for an empty list applies; each has its own words and its own way out. */
import type { RowsStatus } from '../../stores/row-store.ts';
import type { RowCounters } from '#shared/wire.ts';

export type EmptyKind = 'disconnected' | 'loading' | 'rejected' | 'paused' | 'filtered' | 'no-instances' | 'no-traffic';

export interface EmptyInput {
  readonly status: RowsStatus;
  readonly counters: RowCounters | undefined;
  readonly filter: string;
  /** Instances in the fleet; absent before the first state. */
  readonly instances: number | undefined;
}

/** The most useful reason, nearest cause first. */
export function emptyKind({ status, counters, filter, instances }: EmptyInput): EmptyKind {
  if (status === 'disconnected') return 'disconnected';
  if (status === 'rejected') return 'rejected';
  if (counters === undefined || status === 'loading') return 'loading';
  if (filter !== '' && counters.kept > 0) return 'filtered';
  if (status === 'paused') return 'paused';
  return instances === 0 ? 'no-instances' : 'no-traffic';
}
