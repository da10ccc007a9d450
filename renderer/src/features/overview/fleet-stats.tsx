import type { ReactElement } from 'react';
import type { Quantiles } from '#shared/quantiles.ts';
import type { EngineState } from '#shared/state.ts';
import { ABSENT, formatBytes, formatCompact, formatCount, formatInteger, formatMs, formatPercent, formatRate } from '../../ui/format.ts';
import { describeQuantiles } from '../../ui/quantile-pair.tsx';
import { StatStrip, StatTile } from '../../ui/stat-tile.tsx';

/** The strip of fleet totals. Everything that nobody observed is a dash. */
export function FleetStats({ engine }: { readonly engine: EngineState }): ReactElement {
  const { totals, latency, streams } = engine;
  const live = streams.filter((stream) => stream.state === 'live').length;
  const unwell = streams.filter((stream) => stream.state === 'lost' || stream.state === 'failed').length;
  const gaps = streams.reduce((sum, stream) => sum + stream.gaps - (stream.gapsFilled ?? 0), 0);
  return (
    <StatStrip label="Fleet totals">
      <StatTile
        label="requests/s"
        value={formatRate(totals.requestsPerSecond)}
        rest={`${formatCompact(totals.received)} in all`}
        title={`${formatInteger(totals.received)} received: ok ${formatInteger(totals.ok)} · errors ${formatInteger(totals.error)} · aborted by clients ${formatInteger(totals.aborted)}, since pdscope started`}
      />
      <LatencyTile label="TTFT p50 / p95" quantiles={latency.ttftMs} tail="p95" />
      <LatencyTile label="ITL p50 / p99" quantiles={latency.itlMs} tail="p99" />
      <CachedTile engine={engine} />
      <StatTile label="running" value={formatInteger(totals.running)} rest={`${formatRate(totals.chunksPerSecond)} chunks/s`} title="Requests in flight, and output chunks per second over all decode legs" />
      <StatTile
        label="errors (5 min)"
        value={formatInteger(totals.errors5m)}
        rest={`${formatInteger(totals.retries5m)} retried`}
        tone={totals.errors5m > 0 ? 'error' : 'plain'}
        title="Requests whose client got an error or a broken stream; legs that were sent again to another instance"
      />
      <StatTile
        label="KV events/s"
        value={streams.length === 0 ? undefined : formatRate(totals.kvEventsPerSecond)}
        rest={streams.length === 0 ? 'no streams' : formatBytes(streams.reduce((sum, stream) => sum + stream.bytes, 0))}
        title="Events received from all streams; bytes since pdscope started"
      />
      <StatTile
        label="streams live"
        value={streams.length === 0 ? undefined : `${live}/${streams.length}`}
        rest={unwell > 0 ? `✕ ${unwell} lost` : gaps > 0 ? `▲ ${formatCount(gaps, 'gap')}` : undefined}
        tone={unwell > 0 ? 'error' : 'plain'}
        title="KV-event streams that delivered batches, of all configured. The others are silent, connecting, lost or failed."
      />
    </StatStrip>
  );
}

function LatencyTile({ label, quantiles, tail }: { readonly label: string; readonly quantiles: Quantiles | undefined; readonly tail: 'p95' | 'p99' }): ReactElement {
  if (quantiles === undefined || quantiles.n === 0) return <StatTile label={label} value={undefined} title="no samples in the last 5 min" />;
  return <StatTile label={label} value={formatMs(quantiles.p50)} rest={`/ ${formatMs(quantiles[tail])} ms`} title={describeQuantiles(quantiles)} />;
}

function CachedTile({ engine }: { readonly engine: EngineState }): ReactElement {
  const { cachedTokens5m, promptTokens5m } = engine;
  const isKnown = cachedTokens5m !== undefined && promptTokens5m !== undefined && promptTokens5m > 0;
  return (
    <StatTile
      label="prompt cached"
      value={isKnown ? formatPercent(cachedTokens5m / promptTokens5m) : undefined}
      rest={isKnown ? '%' : undefined}
      title={
        isKnown
          ? `${formatInteger(cachedTokens5m)} of ${formatInteger(promptTokens5m)} prompt tokens, last 5 min, as the prefill legs reported them`
          : `${ABSENT} no prefill leg reported cached tokens in the last 5 min`
      }
    />
  );
}
