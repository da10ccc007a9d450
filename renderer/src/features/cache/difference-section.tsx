/** What prefill and decode hold of the same content, and what was sent although it was there. */
import { NativeSelect } from '@mantine/core';
import type { ReactElement } from 'react';
import type { CacheDifference } from '#shared/cache.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { BlockRef } from '../../blocks/block-ref.ts';
import { RunList } from '../../blocks/run-list.tsx';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useTrustOf } from '../../blocks/use-trust.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { formatPercent } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
import { differenceParts, joinSides, splitSides, type DifferenceRow } from './difference-parts.ts';
import { DifferenceTable } from './difference-table.tsx';
import { HandoffTable } from './handoff-table.tsx';
import { NoCache } from './no-cache.tsx';
import classes from './cache.module.css';

const REFRESH_MS = 3000;

export function DifferenceSection({ onOpen }: { readonly onOpen: (ref: BlockRef) => void }): ReactElement {
  const [url, setUrl] = useUrlState();
  const names = useEngineSelector((engine) => engine?.instances.filter(({ streams }) => streams.length > 0).map(({ id, name, role }) => `${id} ${name} ${role}`).join('\n') ?? '');
  const instances = names.split('\n').filter((line) => line !== '').map((line) => line.split(' '));
  const known = new Set(instances.map(([id]) => id));
  const [left, right] = splitSides(url.scope).map((side) => (known.has(side) ? side : '')) as [string, string];
  const { value, error } = usePolledQuery('cache.difference', { windowS: url.windowMin * 60, ...(left !== '' && { left: [left as InstanceId] }), ...(right !== '' && { right: [right as InstanceId] }) }, REFRESH_MS);
  const choices = (all: string): { value: string; label: string }[] => [{ value: '', label: all }, ...instances.map(([id = '', name = id, role]) => ({ value: id, label: `${name} (${role})` }))];
  const isEmpty = value !== undefined && value.onlyLeft.blocks + value.onlyRight.blocks + value.both.blocks === 0;
  return (
    <div className={classes.section}>
      <div className={classes.toolbar}>
        <NativeSelect aria-label="Left side" value={left} data={choices('all prefill instances')} onChange={(event) => setUrl({ scope: joinSides(event.currentTarget.value, right) })} />
        <span className={classes.dim}>against</span>
        <NativeSelect aria-label="Right side" value={right} data={choices('all decode instances')} onChange={(event) => setUrl({ scope: joinSides(left, event.currentTarget.value) })} />
      </div>
      {error !== undefined && <div className={classes.notice}><Message tone={value === undefined ? 'error' : 'warning'}>{value === undefined ? error.message : `Shown as last seen: ${error.message}`}</Message></div>}
      {value === undefined && error === undefined && <div className={classes.notice}>Asking the engine …</div>}
      {isEmpty && <NoCache />}
      {value !== undefined && !isEmpty && <Difference difference={value} sides={[sideName(left, instances, 'P'), sideName(right, instances, 'D')]} windowMin={url.windowMin} onOpen={onOpen} />}
    </div>
  );
}

function sideName(id: string, instances: readonly (readonly string[])[], all: string): string {
  return instances.find(([one]) => one === id)?.[1] ?? all;
}

interface DifferenceProps {
  readonly difference: CacheDifference;
  readonly sides: readonly [string, string];
  readonly windowMin: number;
  readonly onOpen: (ref: BlockRef) => void;
}

function Difference({ difference, sides, windowMin, onOpen }: DifferenceProps): ReactElement {
  const toTrust = useTrustOf();
  const rows = differenceParts(difference, sides);
  return (
    <>
      <SectionHead title="Same content, held by">
        <TrustMark trust={toTrust(difference.confidence)} isLong />
      </SectionHead>
      <Bar rows={rows} />
      <DifferenceTable rows={rows} difference={difference} sides={sides} />
      {difference.handoff !== undefined && <HandoffTable difference={difference} side={sides[1]} windowMin={windowMin} />}
      <div className={classes.thirds}>
        {rows.map((row) => <RunList key={row.id} title={`Largest runs ${row.name}`} nodes={row.part.samples} empty="None." onOpen={onOpen} />)}
      </div>
    </>
  );
}

/** The three parts to scale. The table below says the same in figures. */
function Bar({ rows }: { readonly rows: readonly DifferenceRow[] }): ReactElement {
  return (
    <div className={classes.differenceBar} role="img" aria-label={rows.map((row) => `${row.name} ${formatPercent(row.share)} %`).join(', ')}>
      {rows.map((row) => row.part.blocks > 0 && (
        <span key={row.id} data-part={row.id} style={{ flexGrow: row.part.blocks }}>
          <b>{row.name} {formatPercent(row.share)} %</b>
        </span>
      ))}
    </div>
  );
}
