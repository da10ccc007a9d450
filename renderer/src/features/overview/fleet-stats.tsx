import type { ReactElement } from 'react';
import type { KvStreamView } from '#shared/kv.ts';
import type { Quantiles } from '#shared/quantiles.ts';
import type { EngineState } from '#shared/state.ts';
import { trustOfStreams, trustPercent, trustTone } from '../../blocks/trust.ts';
import { ABSENT, formatBytes, formatCompact, formatCount, formatInteger, formatMs, formatPercent, formatRate } from '../../ui/format.ts';
import { describeQuantiles } from '../../ui/quantile-pair.tsx';
import { StatStrip, StatTile } from '../../ui/stat-tile.tsx';

/** The strip of fleet totals. Everything that nobody observed is a dash. */
export function FleetStats({ engine }: { readonly engine: EngineState }): ReactElement {
  const { totals, latency, streams } = engine;
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
      <ConfidenceTile streams={streams} />
    </StatStrip>
  );
}

function LatencyTile({ label, quantiles, tail }: { readonly label: string; readonly quantiles: Quantiles | undefined; readonly tail: 'p95' | 'p99' }): ReactElement {
  if (quantiles === undefined || quantiles.n === 0) return <StatTile label={label} value={undefined} title="no samples in the last 5 min" />;
  return <StatTile label={label} value={formatMs(quantiles.p50)} rest={`/ ${formatMs(quantiles[tail])} ms`} title={describeQuantiles(quantiles)} />;
}

/** How far cache numbers of the fleet can be trusted, and what the streams they rest on are doing. */
function ConfidenceTile({ streams }: { readonly streams: readonly KvStreamView[] }): ReactElement {
  const trust = trustOfStreams(streams);
  const live = streams.filter((stream) => stream.state === 'live').length;
  const unwell = streams.filter((stream) => stream.state === 'lost' || stream.state === 'failed').length;
  const gaps = streams.reduce((sum, stream) => sum + stream.gaps - (stream.gapsFilled ?? 0), 0);
  const note = unwell > 0 ? `✕ ${unwell} lost` : gaps > 0 ? `▲ ${formatCount(gaps, 'gap')}` : `${live}/${streams.length} live`;
  return (
    <StatTile
      label="KV event confidence"
      value={trust === undefined ? undefined : String(trustPercent(trust.value))}
      rest={streams.length === 0 ? 'no streams' : `${trust === undefined ? '' : '% · '}${note}`}
      tone={unwell > 0 ? 'error' : trust === undefined ? 'plain' : trustTone(trust.value)}
      title={[
        `How far numbers that rest on KV events can be trusted; ${live} of ${streams.length} streams delivered batches.`,
        ...(trust?.rule === undefined ? [] : [`Confidence is ${trust.rule}.`]),
        ...(trust?.reasons ?? []),
      ].join('\n')}
    />
  );
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
          ? `${formatInteger(cachedTokens5m)} of ${formatInteger(promptTokens5m)} prompt tokens, last 5 min, as the prefill legs’ answers told them: it does not rest on KV events`
          : `${ABSENT} no prefill leg reported cached tokens in the last 5 min`
      }
    />
  );
}
