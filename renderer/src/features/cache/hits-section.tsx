/** Hit rates by source: kept apart, over time, and where sources that should agree do not. */
import { Button, NativeSelect } from '@mantine/core';
import { useMemo, type ReactElement } from 'react';
import type { CacheHits, HitSeries } from '#shared/cache.ts';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useTrustOf } from '../../blocks/use-trust.ts';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatInteger, formatPercent } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { StatStrip, StatTile } from '../../ui/stat-tile.tsx';
import { TimeChart } from '../../ui/time-chart.tsx';
import { readUrlList, toggleInUrlList } from '../../url/url-list.ts';
import type { UrlState } from '../../url/url-state.ts';
import { useUrlState, type SetUrlState } from '../../url/use-url-state.ts';
import { DisagreementTable } from './disagreement-table.tsx';
import { hitChartRows, hitRate, hitTableRows, sampleWords, seriesOf } from './hit-rows.ts';
import { SOURCE_LOOK } from './hit-sources.ts';
import { HitTable } from './hit-table.tsx';
import classes from './cache.module.css';

const REFRESH_MS = 2000;

export function HitsSection(): ReactElement {
  const [url, setUrl] = useUrlState();
  const { value, error } = usePolledQuery('cache.hits', { windowS: url.windowMin * 60, stepS: url.windowMin === 5 ? 5 : 15 }, REFRESH_MS);
  if (value === undefined) return <div className={classes.notice}>{error === undefined ? 'Asking the engine …' : <Message tone="error">{error.message}</Message>}</div>;
  if (value.series.length === 0) {
    return <EmptyState title="No source has said anything" text="No engine counter was scraped, no answer carried cached_tokens, and no block is indexed. Send traffic through the proxy." />;
  }
  return (
    <div className={classes.section}>
      {error !== undefined && <div className={classes.notice}><Message tone="warning">Shown as last seen: {error.message}</Message></div>}
      <Hits hits={value} url={url} setUrl={setUrl} />
    </div>
  );
}

interface HitsProps {
  readonly hits: CacheHits;
  readonly url: UrlState;
  readonly setUrl: SetUrlState;
}

function Hits({ hits, url, setUrl }: HitsProps): ReactElement {
  const isTable = url.form === 'table';
  const hidden = new Set(readUrlList(url.hidden));
  const table = useMemo(() => hitTableRows(hits), [hits]);
  // An instance that left takes its narrowing with it.
  const scope = table.some((row) => row.scope === url.scope) ? url.scope : '';
  const series = seriesOf(hits, scope);
  const shown = series.filter(({ source, points }) => points.length > 0 && !hidden.has(source));
  const lines = shown.map(({ source }) => ({ key: source, name: SOURCE_LOOK[source].label, color: SOURCE_LOOK[source].color, dash: SOURCE_LOOK[source].dash }));
  return (
    <>
      <StatStrip label="Hit rate by source">
        {series.map((one) => <SourceTile key={one.source} series={one} />)}
      </StatStrip>
      <SectionHead title="Hit rate over time">
        <NativeSelect aria-label="Instance" value={scope} onChange={(event) => setUrl({ scope: event.currentTarget.value })} data={table.map((row) => ({ value: row.scope, label: row.scope === '' ? 'whole fleet' : row.name }))} />
        <Button onClick={() => setUrl({ form: isTable ? '' : 'table' })} aria-pressed={isTable}>{isTable ? 'chart' : 'table'}</Button>
        <span className={classes.dim}>hit tokens of tokens asked, % · last {hits.windowS / 60} min{isTable ? '' : `, ${hits.stepS} s steps; a step in which nothing was asked is a gap`}</span>
      </SectionHead>
      {isTable ? <HitTable rows={table} /> : (
        <>
          <ul className={classes.legend} aria-label="Lines">
            {series.filter(({ points }) => points.length > 0).map(({ source }) => (
              <li key={source}>
                <button type="button" className={classes.legendItem} aria-pressed={!hidden.has(source)} onClick={() => setUrl({ hidden: toggleInUrlList(url.hidden, source) })} title={SOURCE_LOOK[source].meaning}>
                  <svg width={22} height={8} aria-hidden="true"><line x1={0} y1={4} x2={22} y2={4} stroke={SOURCE_LOOK[source].color} strokeWidth={2} strokeDasharray={SOURCE_LOOK[source].dash} /></svg>
                  {SOURCE_LOOK[source].label}
                </button>
              </li>
            ))}
          </ul>
          <div className={classes.chart}>
            <TimeChart rows={hitChartRows(hits, shown)} lines={lines} domain={[hits.nowUnixMs - hits.windowS * 1000, hits.nowUnixMs]} unit="%" top={100} label="Hit rate" />
          </div>
        </>
      )}
      <DisagreementTable disagreements={hits.disagreements} />
    </>
  );
}

/** One source over the whole window. */
function SourceTile({ series }: { readonly series: HitSeries }): ReactElement {
  const toTrust = useTrustOf();
  const { source, whole, confidence, sample } = series;
  const rate = hitRate(whole);
  const counted = whole === undefined ? 'nothing was asked in the window' : `${formatInteger(whole.hitTokens)} of ${formatInteger(whole.queryTokens)} tokens`;
  return (
    <StatTile
      label={SOURCE_LOOK[source].label}
      value={rate === undefined ? undefined : `${formatPercent(rate)} %`}
      title={`${SOURCE_LOOK[source].meaning} ${counted}${sample === undefined ? '' : `, in ${sampleWords(sample)}`}.`}
      isWide={sample !== undefined}
      rest={confidence === undefined && sample === undefined ? undefined : (
        <>
          {confidence !== undefined && <TrustMark trust={toTrust(confidence)} isLong />}
          {confidence !== undefined && sample !== undefined && ' · '}
          {sample !== undefined && sampleWords(sample)}
        </>
      )}
    />
  );
}
