/** The sum that explains the time to first token, and which part of it is out of the ordinary. */
import type { RequestDetail, RequestRow, TtftBreakdown } from '#shared/request.ts';
import type { Phase } from '#shared/vocabulary.ts';
import { PHASE_LABEL } from '../../../theme/palette.ts';
import { formatDuration, formatMs, formatWholePercent } from '../../../ui/format.ts';

export interface BreakdownPart {
  readonly phase: Phase;
  /** `P queue 59`, `remote-KV wait ≤ 718`, `unattributed 10`. */
  readonly text: string;
  readonly ms: number;
  readonly isExact: boolean;
}

/** Every part in words; the unattributed rest is always the last one, also when it is 0. */
export function breakdownParts(ttft: TtftBreakdown): readonly BreakdownPart[] {
  const parts = ttft.parts.map(({ phase, ms, isExact }) => ({
    phase, ms, isExact, text: `${PHASE_LABEL[phase]} ${isExact ? '' : '≤ '}${formatMs(ms)}`,
  }));
  const rest = { phase: 'unattributed' as const, ms: ttft.unattributedMs, isExact: true, text: `unattributed ${formatMs(ttft.unattributedMs)}` };
  return [...parts, rest];
}

/** Gauges of each leg's instance when it was sent, in words; legs without any are left out. */
export function gaugeSentences(detail: RequestDetail): readonly string[] {
  const told = new Set<string>();
  return detail.legs.flatMap((leg) => {
    const gauges = leg.gaugesAtSend;
    // What counts is who computed the prompt and the answer; dozens of encode legs say the same of one instance.
    if (gauges === undefined || leg.kind === 'render' || (leg.kind === 'encode' && told.has(leg.instance))) return [];
    told.add(leg.instance);
    const parts = [
      `${gauges.inFlight} in flight`,
      gauges.running === undefined ? undefined : `running ${gauges.running}`,
      gauges.waiting === undefined ? undefined : `waiting ${gauges.waiting}`,
      gauges.kvUsage === undefined ? undefined : `KV ${formatWholePercent(gauges.kvUsage)} %`,
      gauges.scrapeAgeMs === undefined ? undefined : `scraped ${formatDuration(gauges.scrapeAgeMs)} before`,
    ].filter((part) => part !== undefined);
    return [`${leg.instanceName} at send: ${parts.join(', ')}`];
  });
}

/** What each leg said about cached tokens, side by side, because they disagree by design. */
export function cachedSentence(detail: RequestDetail): string | undefined {
  const said = detail.legs.flatMap((leg) => {
    const cached = leg.usage?.cachedTokens;
    return cached === undefined ? [] : [`${leg.instanceName} says ${cached.toLocaleString('en-US')}`];
  });
  return said.length === 0 ? undefined : `cached tokens: ${said.join(', ')}${said.length > 1 ? ' (decode counts what it pulled)' : ''}`;
}

export interface SlowPhase {
  readonly phase: Phase;
  readonly ms: number;
  /** Median of the phase over other requests of the same route; absent with fewer than 5. */
  readonly typicalMs?: number;
  readonly n: number;
}

/** The longest phase before the first token, and what it usually is on this pair of instances. */
export function slowestPhase(row: RequestRow, rows: readonly RequestRow[]): SlowPhase | undefined {
  const before = row.phases.filter((span) => span.phase !== 'decode');
  const longest = before.reduce<RequestRow['phases'][number] | undefined>(
    (best, span) => (best === undefined || span.endMs - span.startMs > best.endMs - best.startMs ? span : best),
    undefined,
  );
  if (longest === undefined) return undefined;
  const routeOf = (one: RequestRow): string => one.route.map((step) => step.instance).join('>');
  const route = routeOf(row);
  const others = rows
    .filter((other) => other.id !== row.id && other.state === 'ok' && routeOf(other) === route)
    .flatMap((other) => {
      const span = other.phases.find((candidate) => candidate.phase === longest.phase);
      return span === undefined ? [] : [span.endMs - span.startMs];
    })
    .sort((a, b) => a - b);
  const median = others[Math.floor((others.length - 1) / 2)];
  return {
    phase: longest.phase,
    ms: longest.endMs - longest.startMs,
    n: others.length,
    ...(median !== undefined && others.length >= 5 && { typicalMs: median }),
  };
}
