import type { ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import type { EngineState } from '#shared/state.ts';
import { describeInstance } from '../../fleet/instance-state.ts';
import { streamContext } from '../../fleet/stream-words.ts';
import { CopyText } from '../../ui/copy-text.tsx';
import { DetailHead } from '../../ui/detail-pane.tsx';
import { Facts } from '../../ui/facts.tsx';
import { formatCount, formatDateTime, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { QuantilePair } from '../../ui/quantile-pair.tsx';
import { InstanceName } from '../../ui/role-mark.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { EngineGaugesSection } from './engine-gauges.tsx';
import { InstanceControls } from './instance-controls.tsx';
import pane from '../../ui/detail-pane.module.css';
import records from '../../ui/record-table.module.css';
import classes from './instances.module.css';
import { ProfileSection } from './profile-section.tsx';
import { RankTable } from './rank-table.tsx';
import { SimulatedFault } from './simulated-fault.tsx';
import { StreamSection } from './stream-section.tsx';
import { dpSizeWords, TransferSection } from './transfer-section.tsx';

export interface InstanceDetailProps {
  readonly instance: InstanceView;
  readonly engine: EngineState;
  readonly onClose: () => void;
}

/** Everything known about one instance, and what can be done with it. */
export function InstanceDetail({ instance, engine, onClose }: InstanceDetailProps): ReactElement {
  const state = describeInstance(instance, engine.nowUnixMs);
  const streams = engine.streams.filter((stream) => stream.instance === instance.id);
  const { latency, role } = instance;
  const servesPrefill = role === 'prefill' || role === 'both';
  const servesDecode = role === 'decode' || role === 'both';
  return (
    <section className={records.scroll} aria-label={`Instance ${instance.name}`}>
      <DetailHead title={<InstanceName role={instance.role} name={instance.name} />} onClose={onClose}>
        <StateMark tone={state.tone} title={formatDateTime(instance.stateSinceUnixMs)}>
          {state.words}
        </StateMark>
        {instance.isSimulated && <span className={classes.simulated}>simulated</span>}
      </DetailHead>
      <div className={pane.block}>
        {state.explanation !== undefined && <Message tone={state.tone === 'error' ? 'error' : state.tone === 'warning' ? 'warning' : 'plain'}>{state.explanation}</Message>}
        <InstanceControls instance={instance} />
      </div>

      <SectionHead title="Instance" />
      <div className={pane.block}>
        <Facts
          isPaired
          facts={[
            ['address', <CopyText key="url" text={instance.url} label="address" />],
            ['role', instance.role],
            ['models', instance.models.length === 0 ? 'none reported' : instance.models.join(', ')],
            ['version', instance.version ?? 'not reported'],
            ['data-parallel ranks', dpSizeWords(instance)],
            ['joined', instance.registeredBy === undefined ? undefined : `by itself: it registered with ${instance.registeredBy}, and leaves when it falls silent`],
            ['in flight', formatInteger(instance.inFlight)],
            ['served', `${formatInteger(instance.served)}, failed ${formatInteger(instance.failed)}, errors in 5 min ${formatInteger(instance.errors5m)}`],
            ['circuit breaker', instance.breaker === 'open' ? '▲ open: takes no requests until a health probe succeeds' : `closed, ${formatCount(instance.consecutiveFailures, 'consecutive failure')}`],
          ]}
        />
      </div>

      <SectionHead title="Latency as pdscope observed it, 5 min" />
      <div className={pane.block}>
        {role === 'encode' && <Message tone="plain">Encode legs are timed per request, in the Requests view.</Message>}
        <Facts
          isPaired
          facts={[
            ['prefill p50 / p95 ms', servesPrefill && <QuantilePair key="prefill" quantiles={latency.prefillMs} tail="p95" />],
            ['TTFT p50 / p95 ms', servesDecode && <QuantilePair key="ttft" quantiles={latency.ttftMs} tail="p95" />],
            ['ITL p50 / p99 ms', servesDecode && <QuantilePair key="itl" quantiles={latency.itlMs} tail="p99" />],
            ['TPOT p50 / p95 ms', servesDecode && <QuantilePair key="tpot" quantiles={latency.tpotMs} tail="p95" />],
            ['E2EL p50 / p95 ms', servesDecode && <QuantilePair key="e2el" quantiles={latency.e2elMs} tail="p95" />],
          ]}
        />
      </div>

      <RankTable instance={instance} />
      <TransferSection instance={instance} />
      <EngineGaugesSection instance={instance} nowUnixMs={engine.nowUnixMs} />
      <StreamSection streams={streams} context={streamContext(instance, engine.nowUnixMs)} />
      <ProfileSection instance={instance.id} />
      {instance.isSimulated && <SimulatedFault instance={instance} simulation={engine.simulation} />}
    </section>
  );
}
