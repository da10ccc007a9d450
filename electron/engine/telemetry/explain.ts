/**
 * Explains one request: cuts its time into phases and sums up the time to first token. Pure; computed when someone looks.
 *
 * What is known for certain are the times at which pdscope sent and received (exact). What an engine reports about
 * itself are durations without a place: they are placed where they must have been and marked as not exact. Reports that
 * do not fit into what was observed are not used. Whatever remains is `unattributed`, never spread over the others.
 * The spans follow each other without gap or overlap from `received` to the last thing observed.
 *
 * vLLM's `metrics.time_to_first_token_ms` counts from scheduling, its queue is apart (`queue_time_ms`); a decode request
 * that waits for remote KV is not scheduled meanwhile (vllm/v1/core/sched/scheduler.py), so its queue time contains
 * that wait. It is therefore shown as `kv-wait`, as an upper bound, when the leg was told to fetch KV.
 */
import type { PhaseSpan, TtftBreakdown } from '#shared/request.ts';
import type { LegKind, Phase } from '#shared/vocabulary.ts';

export interface TimelineLeg {
  readonly kind: LegKind;
  /** Milliseconds from `received`, as are all times here. */
  readonly sentMs: number;
  readonly endMs: number | undefined;
  readonly outcome: 'running' | 'ok' | 'error' | 'aborted';
  /** Reported by the engine. */
  readonly queueMs: number | undefined;
  /** Reported by the engine: scheduled to first token. */
  readonly computeMs: number | undefined;
  /** It was sent kv_transfer_params, so it may wait for remote KV. */
  readonly hasTransferParams: boolean;
}

export interface Timeline {
  /** In the order they were sent. */
  readonly legs: readonly TimelineLeg[];
  /** First streamed event to the client. */
  readonly firstChunkMs: number | undefined;
  readonly lastChunkMs: number | undefined;
  readonly endMs: number | undefined;
}

class SpanBuilder {
  readonly spans: PhaseSpan[] = [];
  cursor = 0;

  /** Extends the timeline to `endMs`; does nothing when that is past already. */
  to(phase: Phase, endMs: number, isExact: boolean): void {
    if (endMs <= this.cursor) return;
    const last = this.spans.at(-1);
    if (last?.phase === phase && last.isExact === isExact) this.spans[this.spans.length - 1] = { ...last, endMs };
    else this.spans.push({ phase, startMs: this.cursor, endMs, isExact });
    this.cursor = endMs;
  }
}

/** The phases of a request as far as they have been observed. */
export function phasesOf(timeline: Timeline): PhaseSpan[] {
  const { legs, endMs } = timeline;
  const builder = new SpanBuilder();
  const finalDecode = legs.findLast((leg) => leg.kind === 'decode');
  let wasPrefilled = false;
  for (const leg of legs) {
    const gap: Phase = leg.kind === 'decode' && wasPrefilled ? 'handoff' : 'proxy';
    builder.to(gap, leg.sentMs, true);
    if (leg.kind === 'encode') {
      if (leg.endMs !== undefined) builder.to('encode', leg.endMs, true);
    } else if (leg.kind === 'prefill') {
      wasPrefilled = leg.outcome === 'ok';
      addPrefill(builder, leg);
    } else if (leg === finalDecode) {
      addDecode(builder, leg, timeline);
    } else {
      wasPrefilled = false;
      if (leg.endMs !== undefined) builder.to('unattributed', leg.endMs, false);
    }
  }
  const isOpen = legs.some((leg) => leg.outcome === 'running');
  if (endMs !== undefined && !isOpen) builder.to('proxy', endMs, true);
  return builder.spans;
}

function addPrefill(builder: SpanBuilder, leg: TimelineLeg): void {
  const { sentMs, endMs, queueMs, computeMs } = leg;
  if (endMs === undefined) return;
  // A leg that runs beside another one has no stretch of its own to cut.
  const isAlone = builder.cursor <= sentMs;
  if (leg.outcome !== 'ok' || !isAlone || queueMs === undefined || computeMs === undefined || queueMs + computeMs > endMs - sentMs) {
    builder.to('prefill', endMs, true);
    return;
  }
  builder.to('prefill-queue', sentMs + queueMs, false);
  builder.to('prefill-compute', sentMs + queueMs + computeMs, false);
  builder.to('prefill', endMs, false);
}

function addDecode(builder: SpanBuilder, leg: TimelineLeg, timeline: Timeline): void {
  const { firstChunkMs, lastChunkMs, endMs } = timeline;
  // Concurrent connectors send this leg before prefill ends; only what comes after is left to explain.
  const startMs = Math.max(builder.cursor, leg.sentMs);
  if (firstChunkMs !== undefined) {
    addDecodeStart(builder, leg, { startMs, firstMs: firstChunkMs });
    builder.to('decode', endMs ?? lastChunkMs ?? firstChunkMs, true);
    return;
  }
  if (leg.endMs === undefined) return;
  if (leg.outcome !== 'ok') {
    builder.to('unattributed', leg.endMs, false);
    return;
  }
  // Not streamed: no first chunk, so the engine's word is all there is about the inside.
  const { queueMs, computeMs } = leg;
  if (queueMs !== undefined && computeMs !== undefined && queueMs + computeMs <= leg.endMs - startMs) {
    builder.to(leg.hasTransferParams ? 'kv-wait' : 'decode-queue', startMs + queueMs, false);
    builder.to('first-step', startMs + queueMs + computeMs, false);
    builder.to('decode', leg.endMs, false);
  } else builder.to('decode', leg.endMs, true);
}

function addDecodeStart(builder: SpanBuilder, leg: TimelineLeg, { startMs, firstMs }: { startMs: number; firstMs: number }): void {
  const queueMs = leg.queueMs ?? 0;
  const computeMs = leg.computeMs ?? 0;
  if (queueMs + computeMs <= firstMs - startMs) {
    builder.to(leg.hasTransferParams ? 'kv-wait' : 'decode-queue', startMs + queueMs, false);
    builder.to('unattributed', firstMs - computeMs, false);
    builder.to('first-step', firstMs, false);
  } else builder.to('unattributed', firstMs, false);
}

/** Sum of the time to first token; undefined while there is none. `parts` plus `unattributedMs` is `totalMs`. */
export function explainTtft(timeline: Timeline): TtftBreakdown | undefined {
  const totalMs = timeline.firstChunkMs;
  if (totalMs === undefined) return undefined;
  const parts: { phase: Phase; ms: number; isExact: boolean }[] = [];
  for (const span of phasesOf(timeline)) {
    if (span.startMs >= totalMs || span.phase === 'unattributed' || span.phase === 'decode') continue;
    const ms = Math.min(span.endMs, totalMs) - span.startMs;
    const known = parts.find((part) => part.phase === span.phase);
    if (known === undefined) parts.push({ phase: span.phase, ms, isExact: span.isExact });
    else {
      known.ms += ms;
      known.isExact &&= span.isExact;
    }
  }
  const explained = parts.reduce((sum, part) => sum + part.ms, 0);
  return { totalMs, parts, unattributedMs: Math.max(0, totalMs - explained) };
}
