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
 *
 * Legs side by side: encode legs are one stretch from the first sent to the last ended. When decode is sent while
 * prefill runs (Mooncake, push, MoRIIO WRITE), the time belongs to prefill as long as it runs, because decode can only
 * wait for it; what decode reports counts from there on. A decode leg without a handoff computes the prompt itself, so
 * what it computes before its first token is prefill.
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
  let prefill: TimelineLeg | undefined;
  let isAfterPrefill = false;
  for (const leg of inOrderOfCause(legs, finalDecode)) {
    const gap: Phase = leg.kind === 'decode' && isAfterPrefill ? 'handoff' : 'proxy';
    builder.to(gap, Math.min(leg.sentMs, startOfPair(leg, finalDecode)), true);
    if (leg.kind === 'encode' || leg.kind === 'render') {
      if (leg.endMs !== undefined) builder.to(leg.kind, leg.endMs, true);
    } else if (leg.kind === 'prefill') {
      isAfterPrefill = leg.outcome === 'ok';
      if (leg.outcome === 'ok' || leg.outcome === 'running') prefill = leg;
      addPrefill(builder, leg, timeline);
    } else if (leg.kind === 'forward') {
      // Any route: what the instance does in it is not known.
      if (leg.endMs !== undefined) builder.to('unattributed', leg.endMs, false);
    } else if (leg === finalDecode) {
      addDecode(builder, leg, { timeline, computes: isHandedOver(prefill, leg) ? 'first-step' : 'prefill-compute' });
    } else {
      isAfterPrefill = false;
      if (leg.endMs !== undefined) builder.to('unattributed', leg.endMs, false);
    }
  }
  const isOpen = legs.some((leg) => leg.outcome === 'running');
  if (endMs !== undefined && !isOpen) builder.to('proxy', endMs, true);
  return builder.spans;
}

/** As they were sent, except that a prefill leg comes before the decode leg that waits for it. */
function inOrderOfCause(legs: readonly TimelineLeg[], decode: TimelineLeg | undefined): readonly TimelineLeg[] {
  if (decode === undefined) return legs;
  const at = legs.indexOf(decode);
  const late = legs.slice(at + 1).filter((leg) => leg.kind === 'prefill');
  if (late.length === 0) return legs;
  return [...legs.slice(0, at), ...late, decode, ...legs.slice(at + 1).filter((leg) => leg.kind !== 'prefill')];
}

/** When decode was sent before its prefill, both legs' time begins with it. */
function startOfPair(leg: TimelineLeg, decode: TimelineLeg | undefined): number {
  return leg.kind === 'prefill' && decode !== undefined ? decode.sentMs : Infinity;
}

/** A decode leg without parameters after a prefill leg that was asked to keep its KV got nothing of it. */
function isHandedOver(prefill: TimelineLeg | undefined, decode: TimelineLeg): boolean {
  return prefill !== undefined && (decode.hasTransferParams || !prefill.hasTransferParams);
}

function addPrefill(builder: SpanBuilder, leg: TimelineLeg, { firstChunkMs }: Timeline): void {
  const { sentMs, queueMs, computeMs } = leg;
  if (leg.endMs === undefined) return;
  // Beside a decode leg, prefill may answer after the first token went out.
  const endMs = Math.min(leg.endMs, Math.max(firstChunkMs ?? Infinity, sentMs));
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

interface DecodeContext {
  readonly timeline: Timeline;
  /** What the engine does between being scheduled and the first token. */
  readonly computes: Phase;
}

function addDecode(builder: SpanBuilder, leg: TimelineLeg, { timeline, computes }: DecodeContext): void {
  const { firstChunkMs, lastChunkMs, endMs } = timeline;
  if (firstChunkMs !== undefined && !isReadWhole(leg, firstChunkMs)) {
    addDecodeStart(builder, leg, { firstMs: firstChunkMs, computes });
    builder.to('decode', endMs ?? lastChunkMs ?? firstChunkMs, true);
    return;
  }
  if (leg.endMs === undefined) return;
  if (leg.outcome !== 'ok') {
    builder.to('unattributed', leg.endMs, false);
    return;
  }
  // Not streamed: no first chunk, so the engine's word is all there is about the inside.
  const { sentMs, queueMs, computeMs } = leg;
  if (queueMs !== undefined && computeMs !== undefined && queueMs + computeMs <= leg.endMs - sentMs) {
    builder.to(leg.hasTransferParams ? 'kv-wait' : 'decode-queue', sentMs + queueMs, false);
    builder.to(computes, sentMs + queueMs + computeMs, false);
    builder.to('decode', leg.endMs, false);
  } else builder.to('decode', leg.endMs, true);
}

/** The answer was complete before anything went to the client: a stream made by pdscope out of a whole answer. */
export function isReadWhole({ endMs }: { readonly endMs: number | undefined }, firstChunkMs: number): boolean {
  return endMs !== undefined && endMs < firstChunkMs;
}

/** Its times count from when it was sent, even while prefill was still at work. */
function addDecodeStart(builder: SpanBuilder, leg: TimelineLeg, { firstMs, computes }: { readonly firstMs: number; readonly computes: Phase }): void {
  const queueMs = leg.queueMs ?? 0;
  const computeMs = leg.computeMs ?? 0;
  if (queueMs + computeMs <= firstMs - leg.sentMs) {
    builder.to(leg.hasTransferParams ? 'kv-wait' : 'decode-queue', leg.sentMs + queueMs, false);
    builder.to('unattributed', firstMs - computeMs, false);
    builder.to(computes, firstMs, false);
  } else builder.to('unattributed', firstMs, false);
}

/** Sum of the time to first token; undefined while there is none. `parts` plus `unattributedMs` is `totalMs`. */
export function explainTtft(timeline: Timeline): TtftBreakdown | undefined {
  const totalMs = timeline.firstChunkMs;
  if (totalMs === undefined) return undefined;
  const parts: { phase: Phase; ms: number; isExact: boolean }[] = [];
  for (const span of phasesOf(timeline)) {
    if (span.startMs >= totalMs || span.phase === 'unattributed') continue;
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
