/** A KV-event stream in words: is it alive, what was missed, what can still be asked for. Pure; used by every view of streams. */
import type { InstanceView } from '#shared/instance.ts';
import type { KvCoverage, KvReplayView, KvStreamView } from '#shared/kv.ts';
import { formatCount, formatDuration, formatInteger } from '../ui/format.ts';
import type { Tone } from '../ui/state-mark.tsx';

export interface StreamHealth {
  readonly tone: Tone;
  readonly words: string;
  readonly title: string;
}

/** Longer without a batch than this, milliseconds, and a stream is called quiet: engines publish with every step that stores. */
const QUIET_AFTER_MS = 30_000;
/** An engine that serves binds its publisher's socket before; connecting takes no longer than this, milliseconds. */
const CONNECTED_AFTER_MS = 10_000;

/** What a stream's state is judged by, beside itself. */
export interface StreamContext {
  /** The engine's clock. */
  readonly nowUnixMs: number;
  /** Its instance moves tokens just now. */
  readonly isBusy: boolean;
  /** How long its instance has been up; absent while it is not. */
  readonly upMs?: number;
}

/** Of a stream of this instance; absent when it left the fleet. */
export function streamContext(instance: InstanceView | undefined, nowUnixMs: number): StreamContext {
  return { nowUnixMs, isBusy: (instance?.tokensPerSecond ?? 0) > 0, ...(instance?.state === 'up' && { upMs: nowUnixMs - instance.stateSinceUnixMs }) };
}

/** Milliseconds since the last batch of a stream that is live, once that is worth saying; undefined before. */
export function quietFor(stream: KvStreamView, nowUnixMs: number): number | undefined {
  if (stream.state !== 'live' || stream.lastReceivedAtUnixMs === undefined) return undefined;
  const quietMs = nowUnixMs - stream.lastReceivedAtUnixMs;
  return quietMs > QUIET_AFTER_MS ? quietMs : undefined;
}

/** Not connected although its instance has been serving for a while: a wrong endpoint, or no publisher behind it. */
export function isUnconnected(stream: KvStreamView, { upMs = 0 }: StreamContext): boolean {
  return stream.state === 'connecting' && upMs > CONNECTED_AFTER_MS;
}

/**
 * State of a stream as shape and word. `silent` is normal for an idle engine and stays quiet. A stream that was live and
 * says nothing while its instance works is a warning: a publisher that is stuck looks just like one with nothing to say,
 * until a request proves that there was something (`stores-untold`).
 */
export function streamHealth(stream: KvStreamView, context: StreamContext): StreamHealth {
  const { nowUnixMs, isBusy } = context;
  const reason = stream.stateReason ?? '';
  const untold = stream.reasons?.find(({ code }) => code === 'stores-untold');
  if (untold !== undefined && (stream.state === 'live' || stream.state === 'silent')) {
    const quietMs = quietFor(stream, nowUnixMs);
    return { tone: 'warning', words: quietMs === undefined ? 'stores untold' : `stores untold, quiet ${formatDuration(quietMs)}`, title: untold.text };
  }
  switch (stream.state) {
    case 'live': {
      const quietMs = quietFor(stream, nowUnixMs);
      if (quietMs !== undefined) {
        const since = formatDuration(quietMs);
        return isBusy
          ? { tone: 'warning', words: `quiet ${since}`, title: `No batch for ${since}, while the instance moves tokens: either every block was cached already, or its publisher is stuck` }
          : { tone: 'ok', words: `live, quiet ${since}`, title: `No batch for ${since}: normal for an idle engine` };
      }
      return stream.sawStart
        ? { tone: 'ok', words: 'live', title: reason || 'Batches arrive; seen from the first one' }
        : { tone: 'ok', words: 'live, joined late', title: reason || 'The first batch seen was not the first sent: blocks stored before are unknown' };
    }
    case 'silent':
      return { tone: 'unknown', words: 'silent', title: reason || 'Connected, nothing received yet: normal for an idle engine' };
    case 'connecting':
      if (isUnconnected(stream, context)) {
        return { tone: 'warning', words: 'not connected', title: `${reason === '' ? '' : `${reason}. `}The instance serves, but nobody publishes at ${stream.endpoint}: compare it with --kv-events-config of the engine` };
      }
      return { tone: 'busy', words: 'connecting', title: reason || 'No connection yet' };
    case 'lost':
      return { tone: 'error', words: 'lost', title: reason || 'The connection broke and is tried again' };
    default:
      return { tone: 'error', words: 'failed', title: reason || 'The socket could not be made' };
  }
}

export interface GapWords {
  readonly words: string;
  readonly title: string;
  /** Something is missing for good, or still is. */
  readonly isWarning: boolean;
}

/** `▲ 3 · 2 · 23`: gaps found, filled, and batches lost. An engine that does not tell them apart gives `▲ 3 (40)`. */
export function gapWords({ gaps, missedBatches, gapsFilled, missedFilled, missedLost }: KvStreamView): GapWords {
  if (gaps === 0) return { words: '0', title: 'No hole in the sequence', isWarning: false };
  if (gapsFilled === undefined && missedLost === undefined) {
    return { words: `▲ ${formatInteger(gaps)} (${formatInteger(missedBatches)})`, title: `${formatInteger(missedBatches)} batches missed`, isWarning: true };
  }
  const filled = gapsFilled ?? 0;
  const lost = missedLost ?? 0;
  const isWarning = lost > 0 || filled < gaps;
  return {
    words: `${isWarning ? '▲ ' : ''}${formatInteger(gaps)} · ${formatInteger(filled)} · ${formatInteger(lost)}`,
    title: `${formatCount(gaps, 'gap')} missed ${formatCount(missedBatches, 'batch', 'batches')}: ${formatInteger(missedFilled ?? 0)} brought by replay, ${formatInteger(lost)} lost for good, ${formatInteger(Math.max(0, missedBatches - (missedFilled ?? 0) - lost))} being asked for`,
    isWarning,
  };
}

/** The engine's replay socket as shape and word; undefined when the engine does not say. */
export function replayHealth(replay: KvReplayView | undefined): StreamHealth | undefined {
  if (replay === undefined) return undefined;
  const layout = replay.layout === undefined ? '' : `; replies ${replay.layout === 'topic' ? 'with a topic frame' : 'without a topic frame'}`;
  const done = `${formatInteger(replay.asked)} asked, ${formatInteger(replay.failed)} without a whole answer, ${formatInteger(replay.batches)} batches applied${layout}${replay.endpoint === undefined ? '' : `; ${replay.endpoint}`}`;
  switch (replay.state) {
    case 'none':
      return { tone: 'unknown', words: 'none', title: 'No replay socket is configured: what goes missing is lost' };
    case 'asking':
      return { tone: 'busy', words: 'asking', title: `Live batches wait for it. ${done}` };
    case 'failed':
      return { tone: 'warning', words: 'failed', title: `${replay.reason ?? 'The last question got no whole answer'}. ${done}` };
    default:
      return { tone: 'ok', words: 'idle', title: `Nothing to ask for. ${done}` };
  }
}

/** What went by unseen, for the hover of the share. */
export function coverageWords(coverage: KvCoverage | undefined): string {
  if (coverage === undefined) return 'No batch seen yet';
  const { applied, unseen, lost, unreadable } = coverage;
  return `Batches of the engine’s current life: ${formatInteger(applied)} applied, ${formatInteger(unseen)} went by before the stream was joined, ${formatInteger(lost)} lost in gaps, ${formatInteger(unreadable)} unreadable`;
}
