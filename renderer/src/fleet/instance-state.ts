/** An instance's and its streams' state in the few words that fit a table cell. Pure; used by every view of the fleet. */
import type { InstanceView } from '#shared/instance.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { isUnconnected, quietFor, type StreamContext } from './stream-words.ts';
import { formatCount, formatDuration, formatInteger } from '../ui/format.ts';
import type { Tone } from '../ui/state-mark.tsx';

export interface StateWords {
  readonly tone: Tone;
  readonly words: string;
  /** The whole story, for hovers and details. */
  readonly explanation: string | undefined;
}

/** `up 3 h`, `draining, 6 left`, `down 12 s`. `nowUnixMs` is the engine's clock. */
export function describeInstance(instance: InstanceView, nowUnixMs: number): StateWords {
  const since = formatDuration(Math.max(0, nowUnixMs - instance.stateSinceUnixMs));
  const explanation = instance.stateReason;
  switch (instance.state) {
    case 'starting': {
      return { tone: 'busy', words: 'starting', explanation: explanation ?? 'not probed yet' };
    }
    case 'up': {
      if (instance.breaker === 'open') {
        return {
          tone: 'warning',
          words: 'breaker open',
          explanation: `${formatCount(instance.consecutiveFailures, 'consecutive failure')}; takes no requests until a health probe succeeds${explanation === undefined ? '' : `. ${explanation}`}`,
        };
      }
      return { tone: 'ok', words: `up ${since}`, explanation };
    }
    case 'down': {
      return { tone: 'error', words: `down ${since}`, explanation };
    }
    case 'draining': {
      return { tone: 'busy', words: `draining, ${formatInteger(instance.inFlight)} left`, explanation };
    }
    case 'disabled': {
      return { tone: 'unknown', words: 'disabled', explanation: explanation ?? 'kept, but takes no new requests' };
    }
    default: {
      return { tone: 'unknown', words: instance.state satisfies never, explanation };
    }
  }
}

/** The streams of one instance as one phrase: the worst news first, else the newest sequence number. */
export function describeStreams(streams: readonly KvStreamView[], context: StreamContext): StateWords | undefined {
  const { nowUnixMs, isBusy } = context;
  const [first] = streams;
  if (first === undefined) return undefined;
  const explanation = streams
    .map((stream) => `rank ${stream.rank}: ${stream.state}${stream.stateReason === undefined ? '' : ` (${stream.stateReason})`}, ${formatCount(stream.gaps, 'gap')}, ${formatInteger(stream.missedBatches)} batches missed`)
    .join('\n');
  const broken = streams.filter((stream) => stream.state === 'failed' || stream.state === 'lost');
  if (broken.length > 0) return { tone: 'error', words: `${broken[0]?.state ?? 'lost'}${streams.length > 1 ? ` ${broken.length}/${streams.length}` : ''}`, explanation };
  const unconnected = streams.filter((stream) => isUnconnected(stream, context)).length;
  if (unconnected > 0) return { tone: 'warning', words: `not connected${streams.length > 1 ? ` ${unconnected}/${streams.length}` : ''}`, explanation };
  if (streams.some((stream) => stream.state === 'connecting')) return { tone: 'busy', words: 'connecting', explanation };
  const missed = streams.reduce((sum, stream) => sum + stream.missedBatches - (stream.missedFilled ?? 0), 0);
  if (missed > 0) return { tone: 'warning', words: `${formatInteger(missed)} missed`, explanation };
  if (streams.every((stream) => stream.state === 'silent')) return { tone: 'unknown', words: 'silent', explanation };
  const quietMs = Math.max(...streams.map((stream) => quietFor(stream, nowUnixMs) ?? 0));
  if (isBusy && quietMs > 0) return { tone: 'warning', words: `quiet ${formatDuration(quietMs)}`, explanation: `No batch for ${formatDuration(quietMs)}, while the instance moves tokens.\n${explanation}` };
  const seq = Math.max(...streams.map((stream) => stream.lastSeq ?? -1));
  return { tone: 'ok', words: seq < 0 ? 'live' : `seq ${formatInteger(seq)}`, explanation };
}
