/** What the rows in the list have in common: latency percentiles, phases, and the pairs of instances that served them. */
import type { RequestRow } from '#shared/request.ts';
import { PHASES, type Phase } from '#shared/vocabulary.ts';
import { routeText } from './route-words.ts';
import { percentileOf } from './detail/token-gaps.ts';

export interface Percentiles {
  readonly n: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

export interface PairSummary {
  /** `P0 → D1` */
  readonly route: string;
  readonly requests: number;
  readonly errors: number;
  readonly ttft: Percentiles | undefined;
}

export interface RowsSummary {
  readonly requests: number;
  readonly byState: Readonly<Record<RequestRow['state'], number>>;
  readonly ttft: Percentiles | undefined;
  readonly itl: Percentiles | undefined;
  readonly e2el: Percentiles | undefined;
  readonly phases: readonly { readonly phase: Phase; readonly ms: Percentiles; readonly isExact: boolean }[];
  /** Most errors first, then the slowest first token; at most 8. */
  readonly pairs: readonly PairSummary[];
  /** Routes beyond these. */
  readonly pairsOmitted: number;
}

const MOST_PAIRS = 8;

/** Nearest-rank percentiles; undefined without values. */
export function percentiles(values: readonly number[]): Percentiles | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const p50 = percentileOf(sorted, 0.5);
  const p95 = percentileOf(sorted, 0.95);
  const p99 = percentileOf(sorted, 0.99);
  return p50 === undefined || p95 === undefined || p99 === undefined ? undefined : { n: sorted.length, p50, p95, p99 };
}

/** One pass over the rows; meant for a second's rhythm, not for every frame. */
export function summarize(rows: readonly RequestRow[]): RowsSummary {
  const byState = { running: 0, ok: 0, error: 0, aborted: 0 };
  const phaseMs = new Map<Phase, { readonly ms: number[]; isExact: boolean }>();
  const pairs = new Map<string, { requests: number; errors: number; readonly ttft: number[] }>();
  for (const row of rows) {
    byState[row.state] += 1;
    for (const phase of new Set(row.phases.map((span) => span.phase))) {
      // A phase may come in pieces (pdscope's own time); one request is still one sample.
      const spans = row.phases.filter((span) => span.phase === phase);
      const known = phaseMs.get(phase) ?? { ms: [], isExact: true };
      known.ms.push(spans.reduce((sum, span) => sum + span.endMs - span.startMs, 0));
      known.isExact &&= spans.every((span) => span.isExact);
      phaseMs.set(phase, known);
    }
    const route = routeText(row.route) ?? 'no route';
    const pair = pairs.get(route) ?? { requests: 0, errors: 0, ttft: [] };
    pair.requests += 1;
    if (row.state === 'error') pair.errors += 1;
    if (row.ttftMs !== undefined) pair.ttft.push(row.ttftMs);
    pairs.set(route, pair);
  }
  const observed = (read: (row: RequestRow) => number | undefined): readonly number[] =>
    rows.flatMap((row) => {
      const value = read(row);
      return value === undefined ? [] : [value];
    });
  return {
    requests: rows.length,
    byState,
    ttft: percentiles(observed((row) => row.ttftMs)),
    itl: percentiles(observed((row) => row.itlMs)),
    e2el: percentiles(observed((row) => row.e2elMs)),
    phases: PHASES.flatMap((phase) => {
      const known = phaseMs.get(phase);
      const ms = known === undefined ? undefined : percentiles(known.ms);
      return known === undefined || ms === undefined ? [] : [{ phase, ms, isExact: known.isExact }];
    }),
    pairs: [...pairs]
      .map(([route, pair]) => ({ route, requests: pair.requests, errors: pair.errors, ttft: percentiles(pair.ttft) }))
      .sort((a, b) => b.errors - a.errors || (b.ttft?.p95 ?? -1) - (a.ttft?.p95 ?? -1))
      .slice(0, MOST_PAIRS),
    pairsOmitted: Math.max(0, pairs.size - MOST_PAIRS),
  };
}
