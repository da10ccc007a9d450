/** How far a number that rests on KV events can be trusted, in words. */
import type { Confidence } from '#shared/cache.ts';
import type { StreamId } from '#shared/ids.ts';
import type { KvStreamView } from '#shared/kv.ts';

/** The shape that confidence takes on the page, whichever answer it came with. */
export interface Trust {
  /** 0..1. */
  readonly value: number;
  /** Sentences, heaviest first. */
  readonly reasons: readonly string[];
  /** When it is that of several streams: whose it is, and how many more there are at which value. */
  readonly rule?: string;
}

/** Of a cache answer; a reason about one stream names it. */
export function trustOf({ value, reasons, over = [], streams = over.length }: Confidence, nameOf: (stream: StreamId) => string = String): Trust {
  const rule = lowestRule(over.map(({ stream, value: own }) => ({ name: nameOf(stream), value: own })), streams);
  return {
    value,
    reasons: reasons.map(({ text, stream }) => (stream === undefined ? text : `${nameOf(stream)}: ${text}`)),
    ...(rule !== undefined && { rule }),
  };
}

/** Streams named in the rule; the others are counted. */
const MOST_NAMED = 4;

/** `the lowest of 8 streams: D3/0 0 %, P1/0 61 %; 6 at 100 %`. Undefined of one stream. */
function lowestRule(streams: readonly { readonly name: string; readonly value: number }[], total: number): string | undefined {
  if (total < 2) return undefined;
  const short = streams.filter(({ value }) => trustPercent(value) < 100);
  const named = short.slice(0, MOST_NAMED).map(({ name, value }) => `${name} ${trustPercent(value)} %`);
  const more = short.length - named.length;
  const whole = total - short.length;
  const parts = [...named, ...(more > 0 ? [`${more} more below 100 %`] : [])].join(', ');
  return `the lowest of ${total} streams: ${[parts, whole > 0 ? `${short.length === 0 ? 'all' : whole} at 100 %` : ''].filter((part) => part !== '').join('; ')}`;
}

/** `D0/1`: as people call a stream. */
export function streamName(stream: Pick<KvStreamView, 'instanceName' | 'rank'>): string {
  return `${stream.instanceName}/${stream.rank}`;
}

/**
 * Of several streams together: the lowest, because a statement about all is as good as its worst part, with the reasons
 * of all. Undefined when no stream says how far it can be trusted.
 */
export function trustOfStreams(streams: readonly KvStreamView[]): Trust | undefined {
  const known = streams.filter((stream) => stream.confidence !== undefined);
  if (known.length === 0) return undefined;
  const worstFirst = [...known].sort((a, b) => (a.confidence ?? 1) - (b.confidence ?? 1));
  const rule = lowestRule(worstFirst.map((stream) => ({ name: streamName(stream), value: stream.confidence ?? 1 })), known.length);
  return {
    value: worstFirst[0]?.confidence ?? 1,
    reasons: worstFirst.flatMap((stream) => (stream.reasons ?? []).map(({ text }) => `${streamName(stream)}: ${text}`)),
    ...(rule !== undefined && { rule }),
  };
}

/** Whole per cent, rounded down: only certainty reads 100 %. */
export function trustPercent(value: number): number {
  return Math.floor(Math.min(1, Math.max(0, value)) * 100 + 1e-9);
}

/** `warning` below 90 %, `error` below half: numbers are then closer to a guess than to a count. */
export function trustTone(value: number): 'plain' | 'warning' | 'error' {
  if (value < 0.5) return 'error';
  return value < 0.9 ? 'warning' : 'plain';
}
