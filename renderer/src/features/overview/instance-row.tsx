import { ActionIcon, Menu } from '@mantine/core';
import { memo, type ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { useInstanceActions } from '../../fleet/instance-actions.tsx';
import { InstanceCell } from '../../fleet/instance-cell.tsx';
import { describeInstance, describeStreams } from '../../fleet/instance-state.ts';
import { streamContext } from '../../fleet/stream-words.ts';
import { ROLE_COLOR } from '../../theme/palette.ts';
import { ABSENT, formatCompact, formatInteger, formatPercent } from '../../ui/format.ts';
import { Meter } from '../../ui/meter.tsx';
import { Num } from '../../ui/num.tsx';
import { QuantilePair } from '../../ui/quantile-pair.tsx';
import { Sparkline } from '../../ui/sparkline.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
import records from '../../ui/record-table.module.css';
import classes from './overview.module.css';

export interface InstanceRowProps {
  readonly instance: InstanceView;
  readonly streams: readonly KvStreamView[];
  /** The engine's clock. */
  readonly nowUnixMs: number;
  /** Absent until the series arrived. */
  readonly line: readonly (number | undefined)[] | undefined;
  readonly lineLabel: string;
}

/** One instance on one line. */
export function InstanceRow({ instance, streams, nowUnixMs, line, lineLabel }: InstanceRowProps): ReactElement {
  const [, setUrl] = useUrlState();
  const state = describeInstance(instance, nowUnixMs);
  const stream = describeStreams(streams, streamContext(instance, nowUnixMs));
  const { latency, engine } = instance;
  const open = (): void => setUrl({ view: 'instances', selection: instance.id });
  return (
    <tr onDoubleClick={open}>
      <th scope="row">
        <InstanceCell instance={instance} onOpen={open} />
      </th>
      <td>
        <StateMark tone={state.tone} title={state.explanation}>
          {state.words}
        </StateMark>
      </td>
      <td className={records.right}>{formatInteger(instance.inFlight)}</td>
      <td className={records.right}>
        <QuantilePair quantiles={latency.prefillMs} tail="p95" />
      </td>
      <td className={records.right}>
        <QuantilePair quantiles={latency.ttftMs} tail="p95" />
      </td>
      <td className={records.right}>
        <QuantilePair quantiles={latency.itlMs} tail="p99" />
      </td>
      <td>{line !== undefined && <Sparkline values={line} color={ROLE_COLOR[instance.role]} label={lineLabel} />}</td>
      <td className={records.right}>
        <Num value={instance.tokensPerSecond} format={(value) => formatCompact(Math.round(value))} />
      </td>
      <td>
        <Meter share={engine?.kvUsage} label={`KV cache of ${instance.name}`} />
      </td>
      <td className={records.right}>
        <Num value={engine?.prefixHitRate} format={formatPercent} />
      </td>
      <td className={classes.stream}>
        {stream === undefined ? (
          <span className={classes.dim} title="No KV-event endpoint is configured">
            {ABSENT}
          </span>
        ) : (
          <StateMark tone={stream.tone} title={stream.explanation}>
            {stream.words}
          </StateMark>
        )}
      </td>
      <td className={records.right}>
        <RowMenu instance={instance} onOpen={open} />
      </td>
    </tr>
  );
}

interface RowMenuProps {
  readonly instance: InstanceView;
  readonly onOpen: () => void;
}

/** Menus are what a row costs most of; one that looks the same is not made again with every state of the engine. */
const RowMenu = memo(RowMenuInner, (before, after) => {
  const [a, b] = [before.instance, after.instance];
  return a.id === b.id && a.name === b.name && a.state === b.state && a.inFlight === b.inFlight;
});

function RowMenuInner({ instance, onOpen }: RowMenuProps): ReactElement {
  const actions = useInstanceActions();
  const takesRequests = instance.state === 'up' || instance.state === 'down' || instance.state === 'starting';
  return (
    <Menu width={200}>
      <Menu.Target>
        <ActionIcon aria-label={`Actions for ${instance.name}`}>⋯</ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={onOpen}>Open</Menu.Item>
        {takesRequests && <Menu.Item onClick={() => void actions.drain(instance)}>Drain, then remove</Menu.Item>}
        {takesRequests && <Menu.Item onClick={() => void actions.disable(instance)}>Disable</Menu.Item>}
        {!takesRequests && <Menu.Item onClick={() => void actions.enable(instance)}>Enable</Menu.Item>}
      </Menu.Dropdown>
    </Menu>
  );
}
