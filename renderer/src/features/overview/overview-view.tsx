import { Button, SegmentedControl } from '@mantine/core';
import { lazy, Suspense, type ReactElement } from 'react';
import type { EngineState } from '#shared/state.ts';
import { ROLE_PREFIX } from '#shared/state.ts';
import { ROLES } from '#shared/vocabulary.ts';
import { curlExample, SERVE_EXAMPLE } from '../../fleet/examples.ts';
import { ViewHeader } from '../../shell/view-header.tsx';
import { useEngineState } from '../../stores/engine-context.tsx';
import { CodeBlock } from '../../ui/copy-text.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { useConnection } from '../../transport/transport-context.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
import { FleetStats } from './fleet-stats.tsx';
import { FindingsSection } from './findings-section.tsx';
import { InstanceTable } from './instance-table.tsx';
import classes from './overview.module.css';
import { Topology } from './topology.tsx';

const LatencySection = lazy(async () => {
  const { LatencySection } = await import('./latency-section.tsx');
  return { default: LatencySection };
});

/** The whole fleet on one page: figures, topology, instances, latency over time. */
export function OverviewView(): ReactElement {
  const engine = useEngineState();
  const [url, setUrl] = useUrlState();
  return (
    <>
      <ViewHeader
        title="Overview"
        actions={
          <>
            <SegmentedControl
              aria-label="Window of sparklines and latency chart"
              value={String(url.windowMin)}
              onChange={(value) => setUrl({ windowMin: value === '15' ? 15 : 5 })}
              data={[
                { value: '5', label: '5 min' },
                { value: '15', label: '15 min' },
              ]}
            />
            <Button onClick={() => setUrl({ view: 'instances', selection: 'new' })}>Add instance</Button>
          </>
        }
      >
        {engine !== undefined && <span className={classes.subtitle}>{describeFleet(engine)}</span>}
      </ViewHeader>
      {engine === undefined ? <NoState /> : <OverviewBody engine={engine} windowMin={url.windowMin} />}
    </>
  );
}

function OverviewBody({ engine, windowMin }: { readonly engine: EngineState; readonly windowMin: 5 | 15 }): ReactElement {
  return (
    <div className={classes.scroll}>
      <FleetStats engine={engine} />
      {engine.instances.length === 0 ? (
        <NoInstances />
      ) : (
        <>
          <Topology engine={engine} />
          {engine.totals.received === 0 && <NoTraffic engine={engine} />}
          <InstanceTable engine={engine} windowMin={windowMin} />
          <FindingsSection nowUnixMs={engine.nowUnixMs} />
          <Suspense fallback={<div className={classes.chartPlaceholder} />}>
            <LatencySection windowMin={windowMin} />
          </Suspense>
        </>
      )}
    </div>
  );
}

/** `Qwen3-8B · 1E 2P 3D · nixl` */
function describeFleet(engine: EngineState): string {
  const models = [...new Set(engine.instances.flatMap((instance) => instance.models))];
  const counts = ROLES.map((role) => [role, engine.instances.filter((instance) => instance.role === role).length] as const)
    .filter(([, count]) => count > 0)
    .map(([role, count]) => `${count}${ROLE_PREFIX[role]}`)
    .join(' ');
  const modelText = models.length > 1 ? `${models[0] ?? ''} and ${models.length - 1} more` : models[0];
  return [modelText, counts, engine.connector].filter((part) => part !== undefined && part !== '').join(' · ');
}

function NoState(): ReactElement {
  const connection = useConnection();
  if (connection.phase === 'open' || connection.phase === 'connecting') {
    return <EmptyState title="Connecting to the engine" text="The first state is on its way." />;
  }
  return (
    <EmptyState
      title="Disconnected"
      text={`The engine does not answer: ${connection.reason}. If pdscope was stopped, start it again with the command below; the page reconnects by itself. If it asks to sign in, open the URL that pdscope printed.`}
    >
      <CodeBlock code="npm start" label="start command" />
    </EmptyState>
  );
}

function NoInstances(): ReactElement {
  const [, setUrl] = useUrlState();
  return (
    <EmptyState
      title="No instances yet"
      text="pdscope needs at least one prefill and one decode instance (or one that serves both). Add a running vLLM here, or start pdscope with its addresses."
    >
      <div>
        <Button onClick={() => setUrl({ view: 'instances', selection: 'new' })}>Add instance</Button>
      </div>
      <CodeBlock code={SERVE_EXAMPLE} label="start command" />
    </EmptyState>
  );
}

function NoTraffic({ engine }: { readonly engine: EngineState }): ReactElement {
  if (engine.proxyUrl === undefined) {
    return <EmptyState title="No traffic: the proxy is not listening" text="The port may be taken. The log of the process that runs pdscope says why; start it again with --port." />;
  }
  const model = engine.instances.flatMap((instance) => instance.models)[0];
  return (
    <EmptyState title="No traffic yet" text="Point any OpenAI client at this base URL, or try one request:">
      <CodeBlock code={engine.proxyUrl} label="base URL" />
      <CodeBlock code={curlExample(engine.proxyUrl, model)} label="cURL example" />
    </EmptyState>
  );
}
