/** The record of a case: its error, and the legs with their outcomes, beside what the instances saw of them. */
import { expect } from 'vitest';
import type { LegView, RequestDetail } from '#shared/request.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import type { Case, CaseName, Expected } from './cases.ts';
import type { Answer } from './client.ts';
import type { Cluster } from './cluster.ts';
import type { Sent } from './legs.ts';
import { legKinds, type Mode } from './modes.ts';
import { MEDIA_ITEMS } from './requests.ts';

export interface Outcome {
  readonly cluster: Cluster;
  readonly detail: RequestDetail;
  readonly answer: Answer;
  readonly sent: Sent;
  readonly each: Case;
  readonly expected: Expected;
}

export function expectOutcomes(outcome: Outcome): void {
  const { detail, each, expected } = outcome;
  expect(detail.legs.filter(({ outcome: how }) => how === 'running')).toEqual([]);
  expectAsReceived(outcome);
  // Engines that fail are no fault of the parameters, and a retry makes new ones: nothing for the linter to find.
  expect(detail.verdicts.filter(({ severity }) => severity === 'error')).toEqual([]);
  switch (expected.kind) {
    case 'left':
      expect(detail.row.error?.code).toBe('client_closed');
      expectOneTry(outcome, 'aborted');
      break;
    case 'refused':
    case 'broken':
      expectError(outcome, expected.kind === 'refused' ? expected.code : 'upstream_reset');
      expectOneTry(outcome, 'error');
      break;
    case 'repeated':
      expectRepeated(detail, each, outcome.sent.mode);
      break;
    case 'right':
    case 'right-or-refused':
      break;
  }
}

/** Every leg in the record that was not cancelled came in, and nothing else did. */
function expectAsReceived({ cluster, detail, sent: { mode } }: Outcome): void {
  const kinds = new Set(legKinds(mode, 'chat', 1));
  for (const kind of kinds) {
    // Derendering is a render leg too, on a route of its own.
    const legs = detail.legs.filter((leg) => leg.kind === kind && !leg.url.endsWith('/derender'));
    const complete = legs.filter(({ outcome }) => outcome !== 'aborted');
    const received = cluster.received(kind).length;
    expect(received, `${kind} legs received`).toBeLessThanOrEqual(legs.length);
    expect(received, `${kind} legs received`).toBeGreaterThanOrEqual(complete.length);
  }
}

/** The request's error is the failed leg's, in the record as at the client. */
function expectError({ cluster, detail: { row, legs }, answer, each, expected }: Outcome, code: string): void {
  const instance = legs.find(({ kind, outcome }) => kind === each.on && outcome === 'error');
  expect(row.error).toMatchObject({ leg: each.on, code, instance: instance?.instance });
  expect(row.status).toBe(answer.status);
  if (expected.kind !== 'refused') return;
  const { error, pdscope } = JSON.parse(answer.text) as { readonly error: { readonly message: string }; readonly pdscope: Readonly<Record<string, unknown>> };
  expect(error.message).toBe(row.error?.message);
  expect(pdscope).toMatchObject({ leg: each.on, instance: row.error?.instance });
  expect(cluster.sims.map(({ url }) => url)).toContain(pdscope['instance_url']);
}

/** Legs before the one that failed went well, those beside it were cancelled, and none came after it. */
function expectOneTry({ detail: { row, legs }, sent: { mode, api }, each }: Outcome, how: 'error' | 'aborted'): void {
  expect(row.retries).toBe(0);
  const stages = [...new Set(legKinds(mode, api, MEDIA_ITEMS))];
  const at = stages.indexOf(each.on);
  for (const [index, kind] of stages.entries()) {
    const outcomes = legs.filter((leg) => leg.kind === kind).map(({ outcome }) => outcome);
    if (kind === each.on) expectFailed(outcomes, { mode, each, how });
    else if (index < at) expectBefore(outcomes, { mode, kind });
    else expect([kind, outcomes]).toEqual([kind, mode.legs === 'together' && each.on === 'prefill' ? ['aborted'] : []]);
  }
}

function expectFailed(outcomes: readonly LegView['outcome'][], { mode, each, how }: { readonly mode: Mode; readonly each: Case; readonly how: 'error' | 'aborted' }): void {
  if (each.on === 'encode') {
    // All of them meet the fault; the first that does ends the others.
    expect(outcomes).toHaveLength(MEDIA_ITEMS);
    expect(outcomes).toContain(how);
    expect(outcomes.filter((outcome) => outcome === 'ok')).toEqual([]);
    return;
  }
  const tries = each.on === 'prefill' ? (mode.differences?.[each.name as CaseName]?.prefillTries ?? 1) : 1;
  expect([each.on, outcomes]).toEqual([each.on, Array.from({ length: tries }, () => how)]);
}

/** A prefill leg beside a decode leg that fails may not have ended by itself. */
function expectBefore(outcomes: readonly LegView['outcome'][], { mode, kind }: { readonly mode: Mode; readonly kind: LegKind }): void {
  expect(outcomes).toHaveLength(kind === 'encode' ? MEDIA_ITEMS : 1);
  const isBeside = kind === 'prefill' && mode.legs === 'together';
  for (const outcome of outcomes) expect(isBeside ? ['ok', 'aborted'] : ['ok']).toContain(outcome);
}

function expectRepeated({ row, legs, decisions }: RequestDetail, each: Case, mode: Mode): void {
  const retries = mode.differences?.[each.name as CaseName]?.retries;
  expect(row.retries).toBe(retries ?? 1);
  const tries = legs.filter(({ kind }) => kind === each.on);
  const failed = tries.filter(({ outcome }) => outcome === 'error');
  expect(failed.length).toBeGreaterThan(0);
  expect(tries.at(-1)?.outcome).toBe('ok');
  const [first] = failed;
  const last = tries.at(-1);
  if (each.retry === 'on-other' && each.on !== 'encode' && retries === undefined) {
    expect(last?.instance).not.toBe(first?.instance);
    const decision = decisions.findLast(({ kind }) => kind === each.on);
    expect(decision?.excluded).toEqual(expect.arrayContaining([expect.objectContaining({ instance: first?.instance, reason: expect.stringContaining('failed in this request') })]));
  }
  // Parameters are used once: a failed decode leg takes its prefill leg with it.
  if (each.on === 'decode' && mode.decodeParams !== undefined) expect(legs.filter(({ kind }) => kind === 'prefill')).toHaveLength(2);
  if (each.on === 'decode' && mode.legs === 'serial' && mode.decodeParams === undefined) expect(legs.filter(({ kind }) => kind === 'prefill')).toHaveLength(1);
}
