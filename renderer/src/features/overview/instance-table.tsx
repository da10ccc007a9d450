import { VisuallyHidden } from '@mantine/core';
import { Fragment, useMemo, type ReactElement } from 'react';
import { ROLES, type Role } from '#shared/vocabulary.ts';
import type { EngineState } from '#shared/state.ts';
import type { Series, SeriesMetric } from '#shared/operations.ts';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { evenly } from '../../ui/chart-rows.ts';
import { describeInstance } from '../../fleet/instance-state.ts';
import { formatInteger } from '../../ui/format.ts';
import { SectionHead } from '../../ui/section-head.tsx';
import { ViewLink } from '../../ui/view-link.tsx';
import { InstanceRow } from './instance-row.tsx';
import records from '../../ui/record-table.module.css';
import classes from './overview.module.css';

/** What the small line of a row shows, by role. */
const SPARK_METRIC: Readonly<Record<Role, { readonly metric: SeriesMetric; readonly label: string }>> = {
  encode: { metric: 'inFlight', label: 'in flight' },
  prefill: { metric: 'prefillMs', label: 'prefill p50' },
  decode: { metric: 'itlMs', label: 'ITL p50' },
  both: { metric: 'itlMs', label: 'ITL p50' },
};
const SPARK_POINTS = 60;
/** A fleet larger than this scrolls within its table, so that the chart below stays near. */
const TALL_ABOVE = 16;
/** Named above the table; the rest is counted. */
const MOST_TROUBLED = 4;

/** Every instance on one line, by role, with its last minutes as a small line. */
export function InstanceTable({ engine, windowMin }: { readonly engine: EngineState; readonly windowMin: 5 | 15 }): ReactElement {
  const windowS = windowMin * 60;
  const stepS = windowS / SPARK_POINTS;
  const { value } = usePolledQuery('series.query', { metrics: ['prefillMs', 'itlMs', 'inFlight'], windowS, stepS }, stepS * 1000);
  const lines = useMemo(() => {
    const byKey = new Map<string, readonly (number | undefined)[]>();
    if (value === undefined) return byKey;
    for (const series of value.series) byKey.set(`${series.instance} ${series.metric}`, evenly(series.points, value, sparkValue));
    return byKey;
  }, [value]);
  const streamsOf = useMemo(() => {
    const byInstance = new Map<string, EngineState['streams'][number][]>();
    for (const stream of engine.streams) byInstance.set(stream.instance, [...(byInstance.get(stream.instance) ?? []), stream]);
    return byInstance;
  }, [engine.streams]);

  return (
    <section aria-label="Instances">
      <SectionHead title={`Instances · ${formatInteger(engine.instances.length)}`}>
        <TroubleList engine={engine} />
      </SectionHead>
      <div className={classes.tableScroll} data-tall={engine.instances.length > TALL_ABOVE}>
        <table className={records.table}>
          <thead>
            <tr>
              <th scope="col">instance</th>
              <th scope="col">state</th>
              <th scope="col" className={records.right}>in flight</th>
              <th scope="col" className={records.right} title="Prefill leg: request sent to response complete">prefill p50/p95 ms</th>
              <th scope="col" className={records.right} title="Request received to first chunk of the decode leg">TTFT p50/p95 ms</th>
              <th scope="col" className={records.right} title="Gaps between output chunks">ITL p50/p99 ms</th>
              <th scope="col">{windowMin} min</th>
              <th scope="col" className={records.right} title="Decode: streamed output events; prefill: prompt tokens as reported; last 10 s">tokens/s</th>
              <th scope="col" title="vllm:kv_cache_usage_perc of the last scrape">KV used</th>
              <th scope="col" className={records.right} title="Prefix cache hit rate between the last two scrapes, token-weighted: the engine’s own counters, so it does not rest on KV events">hit %</th>
              <th scope="col">stream</th>
              <th scope="col">
                <VisuallyHidden>actions</VisuallyHidden>
              </th>
            </tr>
          </thead>
          <tbody>
            {ROLES.map((role) => (
              <Fragment key={role}>
                {engine.instances
                  .filter((instance) => instance.role === role)
                  .map((instance) => (
                    <InstanceRow
                      key={instance.id}
                      instance={instance}
                      streams={streamsOf.get(instance.id) ?? []}
                      nowUnixMs={engine.nowUnixMs}
                      line={lines.get(`${instance.id} ${SPARK_METRIC[role].metric}`)}
                      lineLabel={`${SPARK_METRIC[role].label} of ${instance.name}, last ${windowMin} min`}
                    />
                  ))}
              </Fragment>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function sparkValue(point: Series['points'][number]): number | undefined {
  return point.p50 ?? point.value;
}

/** Instances that do not serve as they should, named above the table: in a large fleet they may be out of sight in it. */
function TroubleList({ engine }: { readonly engine: EngineState }): ReactElement | undefined {
  const troubled = engine.instances
    .map((instance) => ({ instance, state: describeInstance(instance, engine.nowUnixMs) }))
    .filter(({ state }) => state.tone === 'error' || state.tone === 'warning');
  if (troubled.length === 0) return undefined;
  const rest = troubled.slice(MOST_TROUBLED);
  return (
    <span className={classes.trouble}>
      ▲ {troubled.slice(0, MOST_TROUBLED).map(({ instance, state }, index) => (
        <Fragment key={instance.id}>
          {index > 0 && ', '}
          <ViewLink to={{ view: 'instances', selection: instance.id }} title={state.explanation}>{instance.name}</ViewLink> {state.words}
        </Fragment>
      ))}
      {rest.length > 0 && <span title={rest.map(({ instance }) => instance.name).join(', ')}> and {formatInteger(rest.length)} more</span>}
    </span>
  );
}
