/**
 * A request detail as lanes of bars on one time axis. Pure: the drawing only scales it.
 *
 * Lanes, top down: the client's view, pdscope itself, one per leg and attempt (retried ones too), the chunks. A phase is
 * drawn in the lane of the leg that ran it; what could not be attributed lies where it happened. Legs that ran at the same
 * time overlap as they did; many encode legs share one lane until somebody asks for each.
 */
import type { LegView, PhaseSpan, RequestDetail } from '#shared/request.ts';
import type { LegKind, Phase } from '#shared/vocabulary.ts';
import { PHASE_LABEL } from '../../../theme/palette.ts';
import { formatDuration, formatMs } from '../../../ui/format.ts';
import { rankedName } from '../../../ui/ranked-name.ts';
import { routeText } from '../route-words.ts';
import { legWords } from './leg-words.ts';

export interface Bar {
  readonly startMs: number;
  readonly endMs: number;
  /** `wait` and `rest` are the client's; `failed` is a leg that led nowhere. */
  readonly look: Phase | 'forward' | 'wait' | 'rest' | 'failed' | 'leg';
  /** False = an upper bound, or not observed: drawn hatched. */
  readonly isExact: boolean;
  /** Written into the bar where there is room. */
  readonly label: string;
  /** Whole sentence for hover and table. */
  readonly title: string;
}

export interface Lane {
  readonly id: string;
  readonly name: string;
  readonly sub: string;
  readonly role?: LegKind;
  readonly isFailed: boolean;
  readonly bars: readonly Bar[];
  /** Several legs in one lane: one thin bar each, top down, in the order in which they were sent. */
  readonly group?: readonly Bar[];
}

export interface WaterfallLayout {
  /** End of the axis, ms from `received`. */
  readonly domainMs: number;
  readonly lanes: readonly Lane[];
  /** Encode legs that have, or could have, one lane for all. */
  readonly groupedLegs: number;
}

/** More encode legs than this share a lane. */
const MOST_OWN_LANES = 4;

const PHASE_LEG: Partial<Readonly<Record<Phase, LegKind>>> = {
  encode: 'encode',
  render: 'render',
  'prefill-queue': 'prefill',
  'prefill-compute': 'prefill',
  prefill: 'prefill',
  'decode-queue': 'decode',
  'kv-wait': 'decode',
  'first-step': 'decode',
  decode: 'decode',
};

/**
 * Lays out a request. `domainMs` aligns two requests on one axis; default: this request's own length. `isEachShown` gives
 * every encode leg its own lane, however many there are.
 */
export function layoutWaterfall(detail: RequestDetail, domainMs?: number, isEachShown = false): WaterfallLayout {
  const { row, legs } = detail;
  const endMs = lastMoment(detail);
  const byLeg = row.phases.map((span) => ({ span, leg: laneLeg(span, legs) }));
  const spansOf = (leg: LegView | undefined): readonly PhaseSpan[] => byLeg.filter((entry) => entry.leg === leg).map((entry) => entry.span);
  const encodeLegs = legs.filter((leg) => leg.kind === 'encode');
  const groupedLegs = encodeLegs.length > MOST_OWN_LANES ? encodeLegs.length : 0;
  const isGrouped = groupedLegs > 0 && !isEachShown;
  return {
    domainMs: Math.max(domainMs ?? endMs, 1),
    groupedLegs,
    lanes: [
      clientLane(detail, endMs),
      { id: 'proxy', name: 'pdscope', sub: routeWords(detail), isFailed: false, bars: spansOf(undefined).map(phaseBar) },
      ...(isGrouped ? [groupLane(encodeLegs, endMs)] : []),
      ...legs.flatMap((leg, index) => {
        if (leg.kind !== 'encode') return [legLane(leg, index, spansOf(leg), endMs)];
        // The phase is that of the whole stage: it belongs to a leg only when there is but one.
        return isGrouped ? [] : [legLane(leg, index, encodeLegs.length === 1 ? spansOf(leg) : [], endMs)];
      }),
    ],
  };
}

/** The last thing known to have happened, ms from `received`. */
export function lastMoment({ row, legs, chunkTimesMs }: RequestDetail): number {
  return Math.max(
    1,
    row.e2elMs ?? 0,
    chunkTimesMs.at(-1) ?? 0,
    ...row.phases.map((span) => span.endMs),
    ...legs.map((leg) => leg.endMs ?? leg.firstByteMs ?? leg.sentMs),
  );
}

/** Round marks for an axis from 0 to `domainMs`, at most `most` of them. */
export function axisTicks(domainMs: number, most: number): readonly number[] {
  const raw = domainMs / Math.max(1, most);
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 2.5, 5, 10].find((factor) => factor * base >= raw) ?? 10) * base;
  const ticks: number[] = [];
  for (let index = 0; index * step <= domainMs; index += 1) ticks.push(index * step);
  return ticks;
}

/** The leg that a span belongs to: of the phase's kind, and running at the time; undefined for pdscope's own time. */
function laneLeg(span: PhaseSpan, legs: readonly LegView[]): LegView | undefined {
  const kind = PHASE_LEG[span.phase];
  if (kind === undefined && span.phase !== 'unattributed') return undefined;
  const middle = (span.startMs + span.endMs) / 2;
  const ofKind = legs.filter((leg) => kind === undefined || leg.kind === kind);
  const running = ofKind.findLast((leg) => leg.sentMs <= middle && middle <= (leg.endMs ?? Number.POSITIVE_INFINITY));
  return running ?? (kind === undefined ? undefined : ofKind.at(-1));
}

function clientLane({ row }: RequestDetail, endMs: number): Lane {
  const bars: Bar[] = [];
  const { ttftMs, e2elMs } = row;
  if (ttftMs !== undefined) {
    bars.push({ startMs: 0, endMs: ttftMs, look: 'wait', isExact: true, label: `${formatMs(ttftMs)} ms`, title: `Waited ${formatDuration(ttftMs)} for the first chunk` });
  }
  const rest = e2elMs ?? (row.state === 'running' ? endMs : undefined);
  if (rest !== undefined) {
    bars.push({
      startMs: ttftMs ?? 0, endMs: rest, look: 'rest', isExact: e2elMs !== undefined, label: '',
      title: row.state === 'running' ? 'Still running' : `Whole request ${formatDuration(rest)}`,
    });
  }
  const sub = ttftMs === undefined ? noFirstToken(row.state) : `${formatMs(ttftMs)} ms to 1st token`;
  return { id: 'client', name: 'client', sub, isFailed: row.state === 'error', bars };
}

function noFirstToken(state: string): string {
  return state === 'running' ? 'waiting for the 1st token' : 'no token reached it';
}

function routeWords({ row }: RequestDetail): string {
  const words = routeText(row.route);
  return words === undefined ? 'chose no instance' : `chose ${words}`;
}

function phaseBar(span: PhaseSpan): Bar {
  const ms = Math.max(0, span.endMs - span.startMs);
  const name = PHASE_LABEL[span.phase];
  const figure = span.isExact ? formatMs(ms) : `≤ ${formatMs(ms)}`;
  return {
    startMs: span.startMs,
    endMs: span.endMs,
    look: span.phase,
    isExact: span.isExact && span.phase !== 'unattributed',
    label: `${name} ${figure}${span.isExact ? '' : ' ms (bounded)'}`,
    title: `${name} ${span.isExact ? '' : 'at most '}${formatDuration(ms)}, ${formatMs(span.startMs)} to ${formatMs(span.endMs)} ms`,
  };
}

/** Ends of a leg on the axis; one that still runs reaches the last moment known. */
function legEnd(leg: LegView, endMs: number): number {
  return leg.endMs ?? (leg.outcome === 'running' ? endMs : (leg.firstByteMs ?? leg.headersMs ?? leg.sentMs));
}

/** All encode legs of a request in one lane: how many, how long, which failed. */
function groupLane(legs: readonly LegView[], endMs: number): Lane {
  const sent = legs.toSorted((a, b) => a.sentMs - b.sentMs);
  const took = legs.flatMap((leg) => (leg.endMs === undefined ? [] : [leg.endMs - leg.sentMs]));
  const failed = legs.filter((leg) => leg.outcome === 'error').length;
  const names = [...new Set(legs.map((leg) => leg.instanceName))];
  const range = took.length === 0 ? 'none ended' : `${formatMs(Math.min(...took))} to ${formatMs(Math.max(...took))} ms`;
  return {
    id: 'encode-legs',
    name: names.length > 2 ? `${names.length} encode` : names.join(', '),
    sub: `${legs.length} encode legs, ${range}${failed === 0 ? '' : `, ${failed} failed`}`,
    role: 'encode',
    isFailed: failed > 0,
    bars: [],
    group: sent.map((leg) => ({
      startMs: leg.sentMs, endMs: legEnd(leg, endMs), look: leg.outcome === 'error' ? 'failed' : 'encode',
      isExact: leg.endMs !== undefined, label: '', title: legTitle(leg),
    })),
  };
}

function legLane(leg: LegView, index: number, phases: readonly PhaseSpan[], endMs: number): Lane {
  const end = legEnd(leg, endMs);
  const isFailed = leg.outcome === 'error';
  const whole: Bar = {
    startMs: leg.sentMs,
    endMs: end,
    look: isFailed ? 'failed' : 'leg',
    isExact: leg.endMs !== undefined,
    label: isFailed ? `✕ ${leg.error?.code ?? `status ${leg.status ?? 'unknown'}`}` : '',
    title: legTitle(leg),
  };
  return {
    id: `leg-${index}`,
    name: rankedName(leg.instanceName, leg.rank),
    sub: `${legWords(leg)}${isFailed ? ', failed' : ''}`,
    role: leg.kind,
    isFailed,
    // The inside of a failed leg explains nothing; its end does.
    bars: [whole, ...(isFailed ? [] : phases.length > 0 ? phases.map(phaseBar) : observedSteps(leg))],
  };
}

/** Without phases the leg still shows what was seen of it: waiting for headers, then for the first byte, then bytes. */
function observedSteps(leg: LegView): readonly Bar[] {
  if (leg.endMs === undefined) return [];
  // An encode leg's answer says nothing but that it is done: all of its time is encoding, its queue included.
  if (leg.kind === 'encode') {
    const ms = leg.endMs - leg.sentMs;
    return [{ startMs: leg.sentMs, endMs: leg.endMs, look: 'encode', isExact: true, label: `encode ${formatMs(ms)}`, title: `Encoded for ${formatDuration(ms)}, the engine's queue included` }];
  }
  if (leg.firstByteMs === undefined) return [];
  const look: Bar['look'] = leg.kind;
  return [{
    startMs: leg.firstByteMs, endMs: leg.endMs, look, isExact: true, label: '',
    title: `Bytes for ${formatDuration(leg.endMs - leg.firstByteMs)}`,
  }];
}

function legTitle(leg: LegView): string {
  const steps = [
    `sent at ${formatMs(leg.sentMs)} ms`,
    leg.headersMs === undefined ? undefined : `headers at ${formatMs(leg.headersMs)}`,
    leg.firstByteMs === undefined ? undefined : `first byte at ${formatMs(leg.firstByteMs)}`,
    leg.endMs === undefined ? undefined : `end at ${formatMs(leg.endMs)}`,
  ].filter((step) => step !== undefined);
  const outcome = leg.error === undefined ? leg.outcome : `${leg.outcome}: ${leg.error.message}`;
  return `${leg.kind} leg on ${rankedName(leg.instanceName, leg.rank)}: ${steps.join(', ')}; ${outcome}`;
}

/**
 * Centres of labels of equal width over `centres` (most important first), moved inside the plot. One that would touch a
 * label before it is left out: `undefined`.
 */
export function placeLabels(centres: readonly number[], labelPx: number, plotPx: number): readonly (number | undefined)[] {
  const placed: number[] = [];
  return centres.map((centre) => {
    const at = Math.max(labelPx / 2, Math.min(plotPx - labelPx / 2, centre));
    if (placed.some((other) => Math.abs(other - at) < labelPx)) return undefined;
    placed.push(at);
    return at;
  });
}
