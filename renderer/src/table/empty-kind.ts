/** Which of the reasons for an empty list applies; each has its own words and its own way out. */
import type { RowCounters } from '#shared/wire.ts';
import type { RowsStatus } from '../stores/row-store.ts';

/** `nothing`: connected, unfiltered, and nothing has happened yet; why is the view's to say. */
export type EmptyKind = 'disconnected' | 'loading' | 'rejected' | 'paused' | 'filtered' | 'nothing';

export interface EmptyInput {
  readonly status: RowsStatus;
  readonly counters: RowCounters | undefined;
  readonly filter: string;
}

/** The most useful reason, nearest cause first. */
export function emptyKind({ status, counters, filter }: EmptyInput): EmptyKind {
  if (status === 'disconnected') return 'disconnected';
  if (status === 'rejected') return 'rejected';
  if (counters === undefined || status === 'loading') return 'loading';
  if (filter !== '' && counters.kept > 0) return 'filtered';
  return status === 'paused' ? 'paused' : 'nothing';
}
