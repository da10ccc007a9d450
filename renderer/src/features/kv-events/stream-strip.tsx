import { useLocalStorage } from '@mantine/hooks';
import type { ReactElement } from 'react';
import type { KvStreamView, ResidentCount } from '#shared/kv.ts';
import { useEngineState } from '../../stores/engine-context.tsx';
import { formatBytes, formatCompact, formatCount, formatDuration, formatInteger, formatRate } from '../../ui/format.ts';
import { Num } from '../../ui/num.tsx';
import { InstanceName } from '../../ui/role-mark.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { streamHealth } from './kv-words.ts';
import classes from './kv-events.module.css';

/** One line per KV-event stream: is it alive, and can it be believed. */
export function StreamStrip({ onPick }: { readonly onPick: (stream: string) => void }): ReactElement | undefined {
  const engine = useEngineState();
  const [isOpen, setOpen] = useLocalStorage({ key: 'pdscope.kv.streams', defaultValue: true, getInitialValueInEffect: false });
  if (engine === undefined || engine.streams.length === 0) return undefined;
  const roles = new Map(engine.instances.map((instance) => [instance.id, instance.role]));
  const gaps = engine.streams.reduce((sum, stream) => sum + stream.gaps, 0);
  const live = engine.streams.filter((stream) => stream.state === 'live').length;
  return (
    <details className={classes.strip} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        streams: {live} of {engine.streams.length} live · {formatRate(engine.totals.kvEventsPerSecond)} events/s
        {gaps > 0 && <span className={classes.warning}> · ▲ {formatCount(gaps, 'gap')}</span>}
      </summary>
      <div className={classes.stripScroll} tabIndex={0} role="region" aria-label="KV-event streams">
        <table className={classes.streams}>
          <thead>
            <tr>
              <th scope="col">stream</th>
              <th scope="col">state</th>
              <th scope="col" title="How batches and hashes are encoded">encoding</th>
              <th scope="col" data-align="end" title="Number of the last batch">last seq</th>
              <th scope="col" data-align="end">events/s</th>
              <th scope="col" data-align="end" title="Holes in the sequence, and the batches they missed">gaps (missed)</th>
              <th scope="col" data-align="end" title="Lives of the engine: restarts + 1">epochs</th>
              <th scope="col" data-align="end" title="Receipt minus the publisher’s timestamp: two clocks, as good as their agreement">lag</th>
              <th scope="col" data-align="end" title="Dropped by pdscope’s own bounded queue, and messages that could not be decoded">dropped / bad</th>
              <th scope="col">resident blocks</th>
            </tr>
          </thead>
          <tbody>
            {engine.streams.map((stream) => (
              <StreamLine key={stream.id} stream={stream} role={roles.get(stream.instance)} onPick={onPick} />
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

interface StreamLineProps {
  readonly stream: KvStreamView;
  readonly role: Parameters<typeof InstanceName>[0]['role'] | undefined;
  readonly onPick: (stream: string) => void;
}

function StreamLine({ stream, role, onPick }: StreamLineProps): ReactElement {
  const health = streamHealth(stream);
  const name = `${stream.instanceName}/${stream.rank}`;
  return (
    <tr>
      <th scope="row">
        <button type="button" className={classes.link} onClick={() => onPick(name)} title={`${stream.endpoint}${stream.topic === '' ? '' : `, topic ${stream.topic}`}. Show only this stream`}>
          {role === undefined ? name : <InstanceName role={role} name={name} />}
        </button>
      </th>
      <td><StateMark tone={health.tone} title={health.title}>{health.words}</StateMark></td>
      <td className={classes.dim}>{stream.encoding === undefined ? '—' : `${stream.encoding}, ${stream.hashForm ?? 'no hash yet'}`}</td>
      <td data-align="end" className={classes.mono}>{stream.lastSeq ?? '—'}</td>
      <td data-align="end">{formatRate(stream.eventsPerSecond)}</td>
      <td data-align="end" className={stream.gaps > 0 ? classes.warning : undefined}>
        {stream.gaps > 0 ? `▲ ${formatInteger(stream.gaps)} (${formatInteger(stream.missedBatches)})` : '0'}
      </td>
      <td data-align="end" className={stream.epochs > 1 ? classes.warning : undefined}>{stream.epochs}</td>
      <td data-align="end"><Num value={stream.lagMs} format={formatDuration} /></td>
      <td data-align="end" className={stream.droppedMessages + stream.badMessages > 0 ? classes.warning : undefined} title={formatBytes(stream.bytes)}>
        {formatInteger(stream.droppedMessages)} / {formatInteger(stream.badMessages)}
      </td>
      <td className={classes.dim}>{residentWords(stream.resident)}</td>
    </tr>
  );
}

/** `1,204 GPU · 88 CPU` */
export function residentWords(resident: readonly ResidentCount[]): string {
  return resident.length === 0 ? 'none known' : resident.map(({ medium, blocks }) => `${formatCompact(blocks)} ${medium}`).join(' · ');
}
