import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import type { FindingsState } from '../../findings/use-findings.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { useIsCutOff } from '../../transport/transport-context.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatCount } from '../../ui/format.ts';
import { ViewLink } from '../../ui/view-link.tsx';
import type { Which } from './which.ts';
import classes from './findings.module.css';

export interface NoFindingsProps {
  readonly state: FindingsState;
  readonly which: Which;
  readonly filter: string;
  /** Findings that the filter hides. */
  readonly hidden: number;
  readonly onClearFilter: () => void;
  readonly onShowDismissed: () => void;
}

/** Why the list is empty; when nothing was found, what is being looked at all the same. */
export function NoFindings({ state, which, filter, hidden, onClearFilter, onShowDismissed }: NoFindingsProps): ReactElement {
  const isCutOff = useIsCutOff();
  if (state.page === undefined && isCutOff) return <EmptyState title="Not connected" text="There is no connection to the engine, which keeps the findings. It is tried again by itself." />;
  if (state.page === undefined) return <EmptyState title={state.error === undefined ? 'Loading' : 'No answer'} text={state.error?.message ?? 'Asking the engine for its findings.'} />;
  if (hidden > 0) {
    return (
      <EmptyState title="The filter hides everything" text={`${formatCount(hidden, 'finding')} listed, none matches: ${filter}`}>
        <div>
          <Button onClick={onClearFilter}>Clear the filter</Button>
        </div>
      </EmptyState>
    );
  }
  if (which === 'dismissed') return <EmptyState title="Nothing is dismissed or over" text="A finding that you dismiss waits here until it is seen again, or until you bring it back. One whose cause is gone waits here until it is seen again." />;
  return <Watched dismissed={state.page.summary.dismissed} onShowDismissed={onShowDismissed} />;
}

function Watched({ dismissed, onShowDismissed }: { readonly dismissed: number; readonly onShowDismissed: () => void }): ReactElement {
  const { connector, received, isBlocking } = useEngineSelector((engine) => ({
    connector: engine?.connector,
    received: engine?.totals.received ?? 0,
    isBlocking: engine?.protocol.blockFatal === true,
  }));
  return (
    <EmptyState
      title="Nothing found"
      text={
        received === 0
          ? 'No request has come yet. Once there are some, each is checked as it passes:'
          : `${formatCount(received, 'request')} came since pdscope started, and each was checked as it passed${connector === undefined ? '' : `; now against the contract of ${connector}`}:`
      }
    >
      <ul className={classes.watched}>
        <li>transfer parameters that are missing or null: the decode instance computed the prompt again, and nobody said so</li>
        <li>a loopback or unspecified host, a wrong port for the rank, an engine id older than the last one seen</li>
        <li>a reference to blocks that is used twice, or a conversation that no longer extends its last turn</li>
        <li>block counts that do not fit the prompt; tensor-parallel or block sizes that differ between prefill and decode</li>
        <li>a prefill that ended by a stop token and kept no KV, where the connector needs it to end by length</li>
        <li>
          fields that kill an engine or let it wait for ever; such legs are {isBlocking ? 'held back with 502' : 'sent all the same, because blocking is off'} (
          <ViewLink to={{ view: 'instances', selection: '' }}>protocol settings</ViewLink>)
        </li>
      </ul>
      {dismissed > 0 && (
        <div>
          <Button onClick={onShowDismissed}>{`Show ${formatCount(dismissed, 'finding')} dismissed or over`}</Button>
        </div>
      )}
    </EmptyState>
  );
}
