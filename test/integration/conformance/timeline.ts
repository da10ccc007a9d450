/** The recorded timeline: it adds up, and the legs lie as the protocol orders them. */
import { expect } from 'vitest';
import type { LegView, RequestDetail } from '#shared/request.ts';
import type { Mode } from './modes.ts';

/** Clocks are read at different places for one event. */
const TOLERANCE_MS = 1;

/** Holds for every request, whatever became of it. */
export function expectTimesInOrder({ row, legs }: RequestDetail): void {
  const e2elMs = row.e2elMs ?? Number.NaN;
  let cursor = 0;
  for (const { startMs, endMs } of row.phases) {
    expect(startMs).toBeGreaterThanOrEqual(cursor - TOLERANCE_MS);
    expect(endMs).toBeGreaterThanOrEqual(startMs);
    cursor = endMs;
  }
  expect(cursor).toBeLessThanOrEqual(e2elMs + TOLERANCE_MS);
  for (const leg of legs) {
    const times = [leg.sentMs, leg.headersMs, leg.firstByteMs, leg.endMs].filter((time) => time !== undefined);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(leg.endMs).toBeLessThanOrEqual(e2elMs + TOLERANCE_MS);
  }
}

/** Of a request that went well in one try. */
export function expectTimeline(detail: RequestDetail, mode: Mode): void {
  const { row, legs, ttft, chunkTimesMs } = detail;
  expectTimesInOrder(detail);
  expectOrder(legs, mode);
  if (!row.isStream) return;
  const parts = (ttft?.parts ?? []).reduce((sum, { ms }) => sum + ms, 0);
  expect(parts + (ttft?.unattributedMs ?? 0)).toBeCloseTo(ttft?.totalMs ?? Number.NaN, 3);
  expect(ttft?.totalMs).toBe(row.ttftMs);
  expect(chunkTimesMs).toEqual(chunkTimesMs.toSorted((a, b) => a - b));
  expect(chunkTimesMs.length).toBeGreaterThan(0);
}

function expectOrder(legs: readonly LegView[], mode: Mode): void {
  const decode = legs.find(({ kind }) => kind === 'decode');
  const prefill = legs.find(({ kind }) => kind === 'prefill');
  if (decode === undefined) throw new Error('no decode leg was recorded');
  const first = prefill ?? decode;
  // What comes after decode is its text being made.
  for (const { kind, sentMs, endMs } of legs) {
    if (kind === 'encode' || (kind === 'render' && sentMs < first.sentMs)) expect(endMs).toBeLessThanOrEqual(first.sentMs);
    if (kind === 'render' && sentMs >= first.sentMs) expect(sentMs).toBeGreaterThanOrEqual(decode.endMs ?? Infinity);
  }
  if (mode.legs === 'serial') expect(prefill?.endMs).toBeLessThanOrEqual(decode.sentMs);
  if (mode.legs === 'together') expect(decode.sentMs).toBeLessThan(prefill?.endMs ?? 0);
}
