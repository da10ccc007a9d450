import type { ReactElement } from 'react';
import type { KvStreamState, KvStreamView } from '#shared/kv.ts';
import { Facts } from '../../ui/facts.tsx';
import { ABSENT, formatAgo, formatBytes, formatCount, formatDuration, formatInteger, formatRate } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { StateMark, type Tone } from '../../ui/state-mark.tsx';
import classes from './instances.module.css';

const TONE: Readonly<Record<KvStreamState, Tone>> = { connecting: 'busy', live: 'ok', silent: 'unknown', lost: 'error', failed: 'error' };

/** The KV-event streams of one instance: is it alive, what was missed, what is resident. */
export function StreamSection({ streams, nowUnixMs }: { readonly streams: readonly KvStreamView[]; readonly nowUnixMs: number }): ReactElement {
  return (
    <>
      <SectionHead title="KV-event streams">
        <span className={classes.note}>{streams.length === 0 ? 'none configured' : formatCount(streams.length, 'rank')}</span>
      </SectionHead>
      {streams.length === 0 && (
        <div className={classes.block}>
          <Message tone="plain">
            Start vLLM with --kv-events-config and publisher zmq, then add the instance with its endpoint to see its blocks.
          </Message>
        </div>
      )}
      {streams.map((stream) => (
        <div key={stream.id} className={classes.block}>
          <div className={classes.streamHead}>
            <strong>rank {stream.rank}</strong>
            <StateMark tone={TONE[stream.state]} title={stream.stateReason}>
              {stream.state}
            </StateMark>
            {stream.stateReason !== undefined && <span className={classes.note}>{stream.stateReason}</span>}
          </div>
          <Facts facts={streamFacts(stream, nowUnixMs)} />
        </div>
      ))}
    </>
  );
}

function streamFacts(stream: KvStreamView, nowUnixMs: number): readonly (readonly [string, string | undefined])[] {
  const resident = stream.resident.map((count) => `${count.medium} ${formatInteger(count.blocks)}`).join(', ');
  return [
    ['endpoint', `${stream.endpoint}${stream.topic === '' ? '' : `, topic ${stream.topic}`}`],
    ['last batch', stream.lastReceivedAtUnixMs === undefined ? 'none yet' : `seq ${stream.lastSeq === undefined ? ABSENT : formatInteger(stream.lastSeq)}, ${formatAgo(nowUnixMs - stream.lastReceivedAtUnixMs)}`],
    ['received', `${formatCount(stream.batches, 'batch', 'batches')}, ${formatCount(stream.events, 'event')}, ${formatBytes(stream.bytes)}, ${formatRate(stream.eventsPerSecond)} events/s`],
    ['lag', stream.lagMs === undefined ? undefined : `${stream.lagMs < 0 ? '−' : ''}${formatDuration(Math.abs(stream.lagMs))} (two clocks: only as good as their agreement)`],
    ['gaps', `${formatInteger(stream.gaps)}, ${formatCount(stream.missedBatches, 'batch', 'batches')} missed, ${formatInteger(stream.duplicateBatches)} duplicate`],
    ['epochs', `${formatInteger(stream.epochs)}${stream.sawStart ? ', seen from its start' : ', joined later: blocks stored before are unknown'}`],
    ['encoding', stream.encoding === undefined ? undefined : `${stream.encoding}${stream.hashForm === undefined ? '' : `, hashes as ${stream.hashForm}`}`],
    ['bad messages', stream.badMessages === 0 ? undefined : formatInteger(stream.badMessages)],
    ['dropped by pdscope', stream.droppedMessages === 0 ? undefined : formatInteger(stream.droppedMessages)],
    ['resident blocks', resident === '' ? 'none seen' : resident],
  ];
}
