import { Button } from '@mantine/core';
import type { ReactElement, ReactNode } from 'react';
import type { RowsView } from '../stores/row-store.ts';
import { useIsCutOff } from '../transport/transport-context.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { formatCount, formatInteger } from '../ui/format.ts';
import { emptyKind } from './empty-kind.ts';

export interface EmptyRowsProps {
  readonly view: RowsView<unknown>;
  readonly filter: string;
  /** What the rows are, singular: `request`, `event`. */
  readonly noun: string;
  /** Shown when nothing has happened yet. */
  readonly nothing: ReactNode;
  readonly onClearFilter: () => void;
  readonly onResume: () => void;
}

/** Why a list is empty, and the way out. */
export function EmptyRows({ view, filter, noun, nothing, onClearFilter, onResume }: EmptyRowsProps): ReactNode {
  const isCutOff = useIsCutOff();
  const kind = emptyKind({ status: view.status, counters: view.counters, filter });
  // A list that was opened after the connection broke has asked nobody.
  switch (kind === 'loading' && isCutOff ? 'disconnected' : kind) {
    case 'disconnected':
      return <EmptyState title="Not connected" text="There is no connection to the engine, and none of it was received before. It is tried again by itself." />;
    case 'loading':
      return <EmptyState title="Loading" text={`Asking the engine for its ${noun}s.`} />;
    case 'rejected':
      return (
        <EmptyState title="The engine would not serve this filter" text={view.error?.message ?? 'It gave no reason.'}>
          <WayOut label="Clear the filter" onClick={onClearFilter} />
        </EmptyState>
      );
    case 'paused':
      return (
        <EmptyState title="Paused before anything arrived" text={`${formatCount(view.paused?.arrived ?? 0, noun)} arrived since.`}>
          <WayOut label="Resume" onClick={onResume} />
        </EmptyState>
      );
    case 'filtered':
      return (
        <EmptyState title="The filter hides everything" text={`${formatCount(view.counters?.kept ?? 0, noun)} kept by the engine, none matches: ${filter}${evictedWords(view.counters?.evicted ?? 0)}`}>
          <WayOut label="Clear the filter" onClick={onClearFilter} />
        </EmptyState>
      );
    default:
      return nothing;
  }
}

/** What is looked for may have been there. */
function evictedWords(evicted: number): string {
  return evicted === 0 ? '' : `. ${formatInteger(evicted)} older ${evicted === 1 ? 'one is' : 'ones are'} no longer kept.`;
}

/** The one thing to do about it. */
export function WayOut({ label, onClick }: { readonly label: string; readonly onClick: () => void }): ReactElement {
  return (
    <div>
      <Button onClick={onClick}>{label}</Button>
    </div>
  );
}
