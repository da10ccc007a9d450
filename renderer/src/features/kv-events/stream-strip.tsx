import { useLocalStorage } from '@mantine/hooks';
import type { ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import type { KvStreamView, ResidentCount } from '#shared/kv.ts';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { streamName, trustOfStreams } from '../../blocks/trust.ts';
import { useEngineState } from '../../stores/engine-context.tsx';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { coverageWords, gapWords, replayHealth, streamContext, streamHealth } from '../../fleet/stream-words.ts';
import { ROLE_COLOR } from '../../theme/palette.ts';
import { ABSENT, formatClockGap, formatCompact, formatCount, formatInteger, formatPercent, formatRate } from '../../ui/format.ts';
import { Num } from '../../ui/num.tsx';
import { InstanceName } from '../../ui/role-mark.tsx';
import { Sparkline } from '../../ui/sparkline.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { NotesMark } from './notes-mark.tsx';
import { OddMark } from './odd-mark.tsx';
import classes from './kv-events.module.css';

/** What a rate's line spans, s. */
const RATES_S = 120;

/** One line per KV-event stream: is it alive, what does it carry, and can it be believed. */
export function StreamStrip({ onPick }: { readonly onPick: (stream: string) => void }): ReactElement | undefined {
  const engine = useEngineState();
  const [isOpen, setOpen] = useLocalStorage({ key: 'pdscope.kv.streams', defaultValue: true, getInitialValueInEffect: false });
  const { value: rates } = usePolledQuery('kv.rates', {}, 2000);
  const streams = engine?.streams ?? [];
  if (engine === undefined || streams.length === 0) return undefined;
  const ratesOf = new Map(rates?.streams.map(({ stream, perSecond }) => [stream, perSecond.map((rate) => rate ?? undefined)] as const));
  const instances = new Map(engine.instances.map((instance) => [instance.id, instance]));
  const sum = (value: (stream: KvStreamView) => number | undefined): number => streams.reduce((total, stream) => total + (value(stream) ?? 0), 0);
  const gaps = sum((stream) => stream.gaps);
  const lost = sum((stream) => stream.missedLost);
  const filled = sum((stream) => stream.gapsFilled);
  // Of dozens, those in trouble would be out of sight below the others.
  const worstFirst = streams.toSorted((a, b) => troubleOf(b) - troubleOf(a));
  const live = streams.filter((stream) => stream.state === 'live').length;
  return (
    <details className={classes.strip} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        streams: {live} of {streams.length} live · {formatRate(engine.totals.kvEventsPerSecond)} events/s
        {gaps > 0 && <span className={gaps > filled ? classes.warning : undefined}> · {gaps > filled ? '▲ ' : ''}{formatCount(gaps, 'gap')}{filled > 0 && `, ${formatInteger(filled)} filled`}</span>}
        {lost > 0 && <span className={classes.warning}> · ▲ {formatCount(lost, 'batch', 'batches')} lost</span>}
      </summary>
      <div className={classes.stripScroll} tabIndex={0} role="region" aria-label="KV-event streams">
        <table className={classes.streams}>
          <thead>
            <tr>
              <th scope="col">stream</th>
              <th scope="col">state</th>
              <th scope="col" data-align="end" title="How far cache numbers of this stream can be trusted">confidence</th>
              <th scope="col" data-align="end">events/s</th>
              <th scope="col" title="Events per second received live over the last two minutes, broken while the stream was not connected; each line on its own scale">2 min</th>
              <th scope="col" data-align="end" title="Holes in the sequence: how many were found, how many of them a replay filled, and batches lost for good">gaps · filled · lost</th>
              <th scope="col" title="The engine’s replay socket, which answers for batches that went missing">replay</th>
              <th scope="col" data-align="end" title="Batches seen, of those that the engine published in its current life">coverage</th>
              <th scope="col" data-align="end" title="Number of the last batch">last seq</th>
              <th scope="col" data-align="end" title="Lives of the engine: restarts + 1">epochs</th>
              <th scope="col" data-align="end" title="Receipt minus the publisher’s timestamp: two clocks, as good as their agreement">lag</th>
              <th scope="col" data-align="end" title="Input that was not as it should be: unreadable, unknown, repeated or out of place; counted, never fatal">odd input</th>
              <th scope="col" title="How batches and hashes are encoded">encoding</th>
              <th scope="col">resident blocks</th>
            </tr>
          </thead>
          <tbody>
            {worstFirst.map((stream) => (
              <StreamLine key={stream.id} stream={stream} instance={instances.get(stream.instance)} nowUnixMs={engine.nowUnixMs} rates={ratesOf.get(stream.id) ?? []} steps={RATES_S / (rates?.stepS ?? RATES_S)} onPick={onPick} />
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** 2: no connection, 1: data are missing or in doubt, 0: sound. From what lasts, so that lines do not change places while one reads. */
function troubleOf({ state, confidence = 1 }: KvStreamView): number {
  if (state !== 'live' && state !== 'silent') return 2;
  return confidence < 1 ? 1 : 0;
}

interface StreamLineProps {
  readonly stream: KvStreamView;
  /** Absent when it left the fleet. */
  readonly instance: InstanceView | undefined;
  /** The engine’s clock. */
  readonly nowUnixMs: number;
  /** Oldest first, undefined while it was not connected; empty while none is known. */
  readonly rates: readonly (number | undefined)[];
  /** As many as the line has room for. */
  readonly steps: number;
  readonly onPick: (stream: string) => void;
}

function StreamLine({ stream, instance, nowUnixMs, rates, steps, onPick }: StreamLineProps): ReactElement {
  const role = instance?.role;
  const health = streamHealth(stream, streamContext(instance, nowUnixMs));
  const replay = replayHealth(stream.replay);
  const gap = gapWords(stream);
  const name = streamName(stream);
  const known = rates.filter((rate) => rate !== undefined);
  // The newest sample is at the right end from the first one on: the line grows into the room, it is not stretched.
  const padded = [...Array.from<undefined>({ length: Math.max(0, steps - rates.length) }), ...rates];
  // Of a stream that never connected nothing was observed, not even silence.
  const isUnseen = stream.batches === 0 && stream.state !== 'live' && stream.state !== 'silent';
  return (
    <tr>
      <th scope="row">
        <button type="button" className={classes.link} onClick={() => onPick(name)} title={`${stream.endpoint}${stream.topic === '' ? '' : `, topic ${stream.topic}`}. Show only this stream`}>
          {role === undefined ? name : <InstanceName role={role} name={name} />}
        </button>
      </th>
      <td><StateMark tone={health.tone} title={health.title}>{health.words}</StateMark></td>
      <td data-align="end"><TrustMark trust={trustOfStreams([stream])} /></td>
      <td data-align="end"><Num value={isUnseen ? undefined : stream.eventsPerSecond} format={formatRate} /></td>
      <td><Sparkline values={padded} color={role === undefined ? 'var(--pd-text-dim)' : ROLE_COLOR[role]} label={`${name}: events per second, ${known.length === 0 ? 'not known yet' : `up to ${formatRate(Math.max(...known))}`}`} /></td>
      <td data-align="end" className={gap.isWarning ? classes.warning : undefined}>{isUnseen ? <span className={classes.dim} title={gap.title}>{ABSENT}</span> : <NotesMark stream={stream.id} name={name} title={gap.title}>{gap.words}</NotesMark>}</td>
      <td>{replay === undefined ? <span className={classes.dim}>{ABSENT}</span> : <StateMark tone={replay.tone} title={replay.title}>{replay.words}</StateMark>}</td>
      <td data-align="end" title={coverageWords(stream.coverage)}>{stream.coverage?.share === undefined ? <span className={classes.dim}>{ABSENT}</span> : `${formatPercent(stream.coverage.share)} %`}</td>
      <td data-align="end" className={classes.mono}>{stream.lastSeq === undefined ? ABSENT : formatInteger(stream.lastSeq)}</td>
      <td data-align="end" className={stream.epochs > 1 ? classes.warning : undefined}>{stream.epochs > 1 ? <NotesMark stream={stream.id} name={name} title="The engine started anew">{stream.epochs}</NotesMark> : stream.epochs}</td>
      <td data-align="end"><Num value={stream.lagMs} format={formatClockGap} /></td>
      <td data-align="end"><OddMark stream={stream} /></td>
      <td className={classes.dim}>{stream.encoding === undefined ? ABSENT : `${stream.encoding}, ${stream.hashForm ?? 'no hash yet'}`}</td>
      <td className={classes.dim}>{residentWords(stream.resident)}</td>
    </tr>
  );
}

/** `1,204 GPU · 88 CPU` */
export function residentWords(resident: readonly ResidentCount[]): string {
  return resident.length === 0 ? 'none known' : resident.map(({ medium, blocks }) => `${formatCompact(blocks)} ${medium}`).join(' · ');
}
