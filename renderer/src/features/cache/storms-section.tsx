/** Blocks that were evicted and needed again shortly after: a cache too small for its traffic. */
import { NativeSelect } from '@mantine/core';
import type { ReactElement } from 'react';
import type { EvictionStorm, EvictionStorms } from '#shared/cache.ts';
import type { BlockRef } from '../../blocks/block-ref.ts';
import { RunList } from '../../blocks/run-list.tsx';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { trustOfStreams } from '../../blocks/trust.ts';
import { useStreamTrust } from '../../blocks/use-trust.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatClock, formatCount, formatDuration, formatInteger, formatPercent } from '../../ui/format.ts';
import { LinkButton } from '../../ui/link-button.tsx';
import { Message } from '../../ui/message.tsx';
import table from '../../ui/plain-table.module.css';
import { InstanceName } from '../../ui/role-mark.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
import { NoCache } from './no-cache.tsx';
import { stormStream } from './storm-bars.ts';
import { StormInstances } from './storm-instances.tsx';
import { StormTimeline } from './storm-timeline.tsx';
import classes from './cache.module.css';

const REFRESH_MS = 3000;
const WITHIN_S = ['5', '30', '120', '600'] as const;
const DEFAULT_WITHIN = '30';

export function StormsSection({ onOpen }: { readonly onOpen: (ref: BlockRef) => void }): ReactElement {
  const [url, setUrl] = useUrlState();
  const within = WITHIN_S.find((one) => one === url.metric) ?? DEFAULT_WITHIN;
  const windowS = url.windowMin * 60;
  const { value, error } = usePolledQuery('cache.storms', { windowS, withinS: Number(within) }, REFRESH_MS);
  const trust = useStreamTrust();
  const { isKnown, nowUnixMs } = useEngineSelector((engine) => ({
    isKnown: engine?.streams.some(({ state, resident }) => state === 'live' || resident.length > 0) ?? false,
    nowUnixMs: Math.ceil((engine?.nowUnixMs ?? 0) / 1000) * 1000,
  }));
  return (
    <div className={classes.section}>
      <div className={classes.toolbar}>
        <span className={classes.dim}>needed again within</span>
        <NativeSelect aria-label="Needed again within" value={within} data={WITHIN_S.map((one) => ({ value: one, label: formatDuration(Number(one) * 1000) }))} onChange={(event) => setUrl({ metric: event.currentTarget.value === DEFAULT_WITHIN ? '' : event.currentTarget.value })} />
        <span className={classes.dim}>of their eviction, last {url.windowMin} min</span>
        <span className={classes.toolbarEnd}><TrustMark trust={trust} isLong /></span>
      </div>
      {error !== undefined && <div className={classes.notice}><Message tone={value === undefined ? 'error' : 'warning'}>{value === undefined ? error.message : `Shown as last seen: ${error.message}`}</Message></div>}
      {value === undefined && error === undefined && <div className={classes.notice}>Asking the engine …</div>}
      {value !== undefined && value.storms.length === 0 && (isKnown ? <EmptyState title="No eviction storm" text={value.fewBlocks === 0 ? `No stream evicted a block and stored it again within ${within} s in the last ${url.windowMin} minutes, as far as its events were seen.` : `${fewWords(value)}.`} /> : <NoCache />)}
      {value !== undefined && value.storms.length > 0 && (
        <>
          <StormTimeline storms={value.storms} fromUnixMs={nowUnixMs - windowS * 1000} toUnixMs={nowUnixMs} withinS={Number(within)} />
          {value.completeSinceUnixMs !== undefined && <div className={classes.notice}><Message tone="warning">Too many evictions were followed by a store to keep them all: storms before {formatClock(value.completeSinceUnixMs)} are incomplete.</Message></div>}
          {value.fewBlocks > 0 && <div className={classes.notice}>Besides, {fewWords(value)}.</div>}
          <StormInstances storms={value.storms} withinS={Number(within)} />
          <StormTable storms={value.storms} onOpen={onOpen} />
        </>
      )}
    </div>
  );
}

function StormTable({ storms, onOpen }: { readonly storms: readonly EvictionStorm[]; readonly onOpen: (ref: BlockRef) => void }): ReactElement {
  const [{ pick }, setUrl] = useUrlState();
  const streams = useEngineSelector((engine) => engine?.streams);
  const roles = useEngineSelector((engine) => engine?.instances);
  const picked = storms.find((storm) => keyOf(storm) === pick) ?? storms[0];
  return (
    <>
      <SectionHead title={`Storms · ${storms.length}`} />
      <div className={classes.tableBox}>
        <table className={table.table}>
          <thead>
            <tr>
              <th scope="col">stream</th><th scope="col">from</th><th scope="col">to</th><th scope="col" data-align="end" title="Evicted and stored again within the limit">blocks</th>
              <th scope="col" data-align="end" title="Least time between eviction and store">shortest</th><th scope="col" data-align="end">median</th><th scope="col">confidence</th><th scope="col">which</th>
            </tr>
          </thead>
          <tbody>
            {storms.map((storm) => {
              const role = roles?.find(({ id }) => id === storm.instance)?.role;
              const name = stormStream(storm);
              return (
                <tr key={keyOf(storm)} data-chosen={storm === picked || undefined}>
                  <th scope="row">{role === undefined ? name : <InstanceName role={role} name={name} />}</th>
                  <td className={classes.mono}>{formatClock(storm.fromUnixMs)}</td>
                  <td className={classes.mono}>{formatClock(storm.toUnixMs)}</td>
                  <td data-align="end" className={classes.warning}>▲ {formatInteger(storm.blocks)}</td>
                  <td data-align="end">{formatDuration(storm.shortestMs)}</td>
                  <td data-align="end">{formatDuration(storm.medianMs)}</td>
                  <td><TrustMark trust={trustOfStreams(streams?.filter(({ id }) => id === storm.stream) ?? [])} /></td>
                  <td><LinkButton aria-pressed={storm === picked} onClick={() => setUrl({ pick: keyOf(storm) })}>samples</LinkButton></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {picked !== undefined && (
        <div className={classes.thirds}>
          <RunList title={`Needed again on ${picked.instanceName}, from ${formatClock(picked.fromUnixMs)}`} nodes={picked.samples} empty="No sample was kept." onOpen={onOpen} />
        </div>
      )}
    </>
  );
}

/** `3 blocks came back too few at a time for a storm, which is 16 blocks and 1.0 % of what a stream holds at least`. */
function fewWords({ fewBlocks, least }: EvictionStorms): string {
  return `${formatCount(fewBlocks, 'block')} came back too few at a time for a storm, which is ${formatInteger(least.blocks)} blocks and ${formatPercent(least.share)} % of what a stream holds at least; the history of a block shows it`;
}

function keyOf({ stream, fromUnixMs }: EvictionStorm): string {
  return `${stream} ${fromUnixMs}`;
}
