import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import type { EngineState } from '#shared/state.ts';
import type { RowCounters } from '#shared/wire.ts';
import { useEngineState } from '../../stores/engine-context.tsx';
import type { RowsView } from '../../stores/row-store.ts';
import { CodeBlock } from '../../ui/copy-text.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatCount, formatInteger } from '../../ui/format.ts';
import { useUrlState } from '../../url/use-url-state.ts';
import { emptyKind } from './empty-kind.ts';

export interface RequestsEmptyProps {
  readonly view: RowsView<unknown>;
  readonly filter: string;
  readonly onClearFilter: () => void;
  readonly onResume: () => void;
}

/** Why the list is empty, and the way out. */
export function RequestsEmpty({ view, filter, onClearFilter, onResume }: RequestsEmptyProps): ReactElement {
  const [, setUrl] = useUrlState();
  const engine = useEngineState();
  const kind = emptyKind({ status: view.status, counters: view.counters, filter, instances: engine?.instances.length });
  switch (kind) {
    case 'disconnected':
      return <EmptyState title="Not connected" text="There is no connection to the engine, and nothing was received before it broke. It is tried again by itself." />;
    case 'loading':
      return <EmptyState title="Loading" text="Asking the engine for its requests." />;
    case 'rejected':
      return <EmptyState title="The engine would not serve this filter" text={view.error?.message ?? 'No reason was given.'}><Out label="Clear the filter" onClick={onClearFilter} /></EmptyState>;
    case 'paused':
      return (
        <EmptyState title="Paused before anything arrived" text={`${formatCount(view.paused?.arrived ?? 0, 'request')} arrived since.`}>
          <Out label="Resume" onClick={onResume} />
        </EmptyState>
      );
    case 'filtered':
      return (
        <EmptyState title="The filter hides everything" text={`${hidden(view.counters)} are recorded; none matches ${filter}`}>
          <Out label="Clear the filter" onClick={onClearFilter} />
        </EmptyState>
      );
    case 'no-instances':
      return (
        <EmptyState title="No instances" text="There is nobody to send requests to: pdscope needs a prefill and a decode instance.">
          <Out label="Add an instance" onClick={() => setUrl({ view: 'instances', selection: 'new' })} />
        </EmptyState>
      );
    default:
      return <NoTraffic engine={engine} />;
  }
}

function Out({ label, onClick }: { readonly label: string; readonly onClick: () => void }): ReactElement {
  return <div><Button onClick={onClick}>{label}</Button></div>;
}

function hidden(counters: RowCounters | undefined): string {
  return counters === undefined ? 'Requests' : `${formatInteger(counters.kept)} requests`;
}

function NoTraffic({ engine }: { readonly engine: EngineState | undefined }): ReactElement {
  if (engine?.proxyUrl === undefined) {
    return <EmptyState title="No requests" text="The proxy is not listening, so none can arrive. Its log says why." />;
  }
  const model = engine.instances.flatMap((instance) => instance.models)[0] ?? 'MODEL';
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }], stream: true });
  return (
    <EmptyState title="No requests yet" text="Point a client at this base URL, or send one from a shell:">
      <CodeBlock code={engine.proxyUrl} label="base URL" />
      <CodeBlock code={`curl -N ${engine.proxyUrl}/chat/completions \\\n  -H 'content-type: application/json' \\\n  -d '${body}'`} label="cURL command" />
    </EmptyState>
  );
}
