/** Phases that ran at the same time (a prefill and a decode leg of a push protocol), one above the other. Pure. */
import type { PhaseSpan } from '#shared/request.ts';

export interface StackedSpan {
  readonly span: PhaseSpan;
  /** 0 is the upper one. */
  readonly level: 0 | 1;
  /** 1 when nothing of the request overlaps. */
  readonly levels: 1 | 2;
}

/** Clocks are read one after the other: this much is no overlap. Milliseconds. */
const TOLERANCE_MS = 0.5;

/** Prefill's side above, decode's below, when any two spans overlap; else all on one level. */
export function stackSpans(spans: readonly PhaseSpan[]): readonly StackedSpan[] {
  const sorted = spans.toSorted((a, b) => a.startMs - b.startMs);
  let reached = Number.NEGATIVE_INFINITY;
  let isOverlapping = false;
  for (const span of sorted) {
    if (span.startMs < reached - TOLERANCE_MS) isOverlapping = true;
    reached = Math.max(reached, span.endMs);
  }
  return spans.map((span) => ({ span, level: isOverlapping && isDecodeSide(span) ? 1 : 0, levels: isOverlapping ? 2 : 1 }));
}

function isDecodeSide({ phase }: PhaseSpan): boolean {
  return phase === 'decode-queue' || phase === 'kv-wait' || phase === 'first-step' || phase === 'decode' || phase === 'unattributed';
}
