import { ActionIcon, Menu } from '@mantine/core';
import type { ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { useInstanceActions } from '../../fleet/instance-actions.tsx';
import { describeInstance, describeStreams } from '../../fleet/instance-state.ts';
import { ROLE_COLOR } from '../../theme/palette.ts';
import { ABSENT, formatCompact, formatInteger, formatPercent } from '../../ui/format.ts';
import { Meter } from '../../ui/meter.tsx';
import { Num } from '../../ui/num.tsx';
import { QuantilePair } from '../../ui/quantile-pair.tsx';
import { RoleMark } from '../../ui/role-mark.tsx';
import { Sparkline } from '../../ui/sparkline.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
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
  const stream = describeStreams(streams);
  const { latency, engine } = instance;
  const open = (): void => setUrl({ view: 'instances', selection: instance.id });
  return (
    <tr onDoubleClick={open}>
      <th scope="row">
        <span className={classes.nameCell}>
          <RoleMark role={instance.role} />
          <button type="button" className={classes.nameButton} onClick={open}>
            {instance.name}
          </button>
          <span className={classes.address} title={instance.url}>
            {instance.url.replace(/^https?:\/\//, '')}
          </span>
        </span>
      </th>
      <td>
        <StateMark tone={state.tone} title={state.explanation}>
          {state.words}
        </StateMark>
      </td>
      <td className={classes.right}>{formatInteger(instance.inFlight)}</td>
      <td className={classes.right}>
        <QuantilePair quantiles={latency.prefillMs} tail="p95" />
      </td>
      <td className={classes.right}>
        <QuantilePair quantiles={latency.ttftMs} tail="p95" />
      </td>
      <td className={classes.right}>
        <QuantilePair quantiles={latency.itlMs} tail="p99" />
      </td>
      <td>{line !== undefined && <Sparkline values={line} color={ROLE_COLOR[instance.role]} label={lineLabel} />}</td>
      <td className={classes.right}>
        <Num value={instance.tokensPerSecond} format={(value) => formatCompact(Math.round(value))} />
      </td>
      <td>
        <Meter share={engine?.kvUsage} label={`KV cache of ${instance.name}`} />
      </td>
      <td className={classes.right}>
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
      <td className={classes.right}>
        <RowMenu instance={instance} onOpen={open} />
      </td>
    </tr>
  );
}

function RowMenu({ instance, onOpen }: { readonly instance: InstanceView; readonly onOpen: () => void }): ReactElement {
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
