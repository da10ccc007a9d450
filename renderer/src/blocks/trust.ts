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
}

/** Of a cache answer; a reason about one stream names it. */
export function trustOf({ value, reasons }: Confidence, nameOf: (stream: StreamId) => string = String): Trust {
  return { value, reasons: reasons.map(({ text, stream }) => (stream === undefined ? text : `${nameOf(stream)}: ${text}`)) };
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
  return {
    value: worstFirst[0]?.confidence ?? 1,
    reasons: worstFirst.flatMap((stream) => (stream.reasons ?? []).map(({ text }) => `${streamName(stream)}: ${text}`)),
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
