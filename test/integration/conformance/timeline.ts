/** The recorded timeline of a request that went well: it adds up, and its legs lie as the protocol orders them. */
import { expect } from 'vitest';
import type { LegView, RequestDetail } from '#shared/request.ts';
import type { Mode } from './modes.ts';

/** Clocks are read at different places for one event. */
const TOLERANCE_MS = 1;

export function expectTimeline({ row, legs, ttft, chunkTimesMs }: RequestDetail, mode: Mode): void {
  const e2elMs = row.e2elMs ?? Number.NaN;
  let cursor = 0;
  for (const { startMs, endMs } of row.phases) {
    expect(startMs).toBeGreaterThanOrEqual(cursor - TOLERANCE_MS);
    expect(endMs).toBeGreaterThanOrEqual(startMs);
    cursor = endMs;
  }
  expect(cursor).toBeLessThanOrEqual(e2elMs + TOLERANCE_MS);
  for (const leg of legs) {
    const times = [leg.sentMs, leg.headersMs, leg.firstByteMs, leg.endMs];
    expect(times).toEqual([...times].sort((a, b) => Number(a) - Number(b)));
    expect(leg.endMs).toBeLessThanOrEqual(e2elMs + TOLERANCE_MS);
  }
  expectOrder(legs, mode);
  if (!row.isStream) return;
  expect(ttft).toBeDefined();
  const parts = (ttft?.parts ?? []).reduce((sum, { ms }) => sum + ms, 0);
  expect(parts + (ttft?.unattributedMs ?? 0)).toBeCloseTo(ttft?.totalMs ?? Number.NaN, 3);
  expect(ttft?.totalMs).toBe(row.ttftMs);
  expect(chunkTimesMs).toEqual([...chunkTimesMs].sort((a, b) => a - b));
  expect(chunkTimesMs.length).toBeGreaterThan(1);
}

function expectOrder(legs: readonly LegView[], mode: Mode): void {
  const decode = legs.find(({ kind }) => kind === 'decode');
  const prefill = legs.find(({ kind }) => kind === 'prefill');
  if (decode === undefined) throw new Error('no decode leg was recorded');
  for (const { kind, endMs } of legs) {
    if (kind === 'encode' || kind === 'render') expect(endMs).toBeLessThanOrEqual((prefill ?? decode).sentMs);
  }
  if (mode.legs === 'serial') expect(prefill?.endMs).toBeLessThanOrEqual(decode.sentMs);
  if (mode.legs === 'together') expect(decode.sentMs).toBeLessThan(prefill?.endMs ?? 0);
}
