import type { ReactElement } from 'react';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { trustOfStreams } from '../../blocks/trust.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { oddInput } from '../../fleet/odd-input.ts';
import { coverageWords, gapWords, replayHealth, streamHealth, type StreamContext } from '../../fleet/stream-words.ts';
import { Facts } from '../../ui/facts.tsx';
import { ABSENT, formatAgo, formatBytes, formatClockGap, formatCount, formatInteger, formatPercent, formatRate } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import pane from '../../ui/detail-pane.module.css';
import classes from './instances.module.css';

export interface StreamSectionProps {
  readonly context: StreamContext;
  readonly streams: readonly KvStreamView[];
}

/** The KV-event streams of one instance: is it alive, what was missed, what is resident. */
export function StreamSection({ streams, context }: StreamSectionProps): ReactElement {
  return (
    <>
      <SectionHead title="KV-event streams">
        <span className={classes.note}>{streams.length === 0 ? 'none configured' : formatCount(streams.length, 'rank')}</span>
      </SectionHead>
      {streams.length === 0 && (
        <div className={pane.block}>
          <Message tone="plain">
            Start vLLM with --kv-events-config and publisher zmq, then add the instance with its endpoint to see its blocks.
          </Message>
        </div>
      )}
      {streams.map((stream) => (
        <StreamBlock key={stream.id} stream={stream} context={context} />
      ))}
    </>
  );
}

function StreamBlock({ stream, context }: { readonly stream: KvStreamView; readonly context: StreamContext }): ReactElement {
  const health = streamHealth(stream, context);
  return (
    <div className={pane.block}>
      <div className={classes.streamHead}>
        <strong>rank {stream.rank}</strong>
        <StateMark tone={health.tone} title={health.title}>{health.words}</StateMark>
        <TrustMark trust={trustOfStreams([stream])} isLong />
        <span className={classes.note}>{stream.stateReason ?? (health.tone === 'warning' ? health.title : undefined)}</span>
      </div>
      <Facts facts={streamFacts(stream, context.nowUnixMs)} />
    </div>
  );
}

function streamFacts(stream: KvStreamView, nowUnixMs: number): readonly (readonly [string, string | undefined])[] {
  const odd = oddInput(stream);
  const replay = replayHealth(stream.replay);
  const resident = stream.resident.map((count) => `${count.medium} ${formatInteger(count.blocks)}`).join(', ');
  return [
    ['endpoint', `${stream.endpoint}${stream.topic === '' ? '' : `, topic ${stream.topic}`}`],
    ['last batch', stream.lastReceivedAtUnixMs === undefined ? 'none yet' : `seq ${stream.lastSeq === undefined ? ABSENT : formatInteger(stream.lastSeq)}, ${formatAgo(nowUnixMs - stream.lastReceivedAtUnixMs)}`],
    ['received', `${formatCount(stream.batches, 'batch', 'batches')}, ${formatCount(stream.events, 'event')}, ${formatBytes(stream.bytes)}, ${formatRate(stream.eventsPerSecond)} events/s`],
    ['lag', stream.lagMs === undefined ? undefined : `${formatClockGap(stream.lagMs)} (two clocks: only as good as their agreement)`],
    ['gaps', gapWords(stream).title],
    ['replay', replay === undefined ? undefined : `${replay.words}: ${replay.title}`],
    ['coverage', stream.coverage?.share === undefined ? undefined : `${formatPercent(stream.coverage.share)} %. ${coverageWords(stream.coverage)}`],
    ['epochs', `${formatInteger(stream.epochs)}${stream.sawStart ? ', seen from its start' : ', joined later: blocks stored before are unknown'}`],
    ['encoding', stream.encoding === undefined ? undefined : `${stream.encoding}${stream.hashForm === undefined ? '' : `, hashes as ${stream.hashForm}`}`],
    ['reuse announced', stream.announcedBlocks === undefined || stream.announcedBlocks === 0 ? undefined : `${formatCount(stream.announcedBlocks, 'block')} that requests found in the cache and asked to be told of (kv_cache_report_mode)`],
    ['odd input', odd.length === 0 ? undefined : odd.map(({ words }) => words).join('; ')],
    ['resident blocks', resident === '' ? 'none seen' : resident],
  ];
}
