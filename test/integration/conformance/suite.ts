/**
 * The conformance suite of one mode: {chat, completions} x {streaming, whole} x {all well, and each case of cases.ts that
 * can happen in it}. The tables are modes.ts (how a mode is set up, what its legs carry, where it differs and why) and
 * cases.ts (what goes wrong, and what the client must see); a test's name is mode, API, form, case and outcome, so the
 * list of tests is the report (`npx vitest run --project integration test/integration/conformance --reporter=verbose`).
 *
 * Asserted every time: status and bytes at the client; path, headers, parameters and body of whatever an instance
 * received (legs.ts); the recorded legs with their outcomes, and times that add up (outcomes.ts, timeline.ts); no engine
 * died or loaded KV of other tokens; and in the end nothing runs and no block is held, leases included. When all is well
 * the engines' own counters show that the handoff came about, and the client has the answer of an instance asked alone.
 *
 * Each test has instances and an engine of its own, so the tests of a file run side by side. Nothing waits by the clock:
 * requests are held by gates inside the instances until what the case is about has happened.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSimInstance, type SimInstance } from '#engine/simulator/sim-instance.ts';
import { applies, CASES, describeExpected, expectedOf } from './cases.ts';
import type { Mode } from './modes.ts';
import { directText } from './requests.ts';
import { NOTHING_HELD, runConformance, runOverRanks, type RunInit } from './run.ts';

type Form = 'streaming' | 'whole';

export function describeConformance(mode: Mode): void {
  /** What the model says to a request when nobody hands anything over. */
  let reference: SimInstance;
  beforeAll(async () => {
    reference = await startSimInstance({ role: 'both', seed: 7, transfer: 'none', speed: 25 });
  });
  afterAll(() => reference.close());

  describe.concurrent.each(['chat', 'completions'] as const)(`${mode.name}, %s`, (api) => {
    describe.each(['streaming', 'whole'] as const satisfies readonly Form[])('%s', (form) => {
      const isStream = form === 'streaming';
      const init: RunInit = { mode, api, isStream, rightText: (request) => directText(reference, request) };

      test('all well: the right answer, legs as the protocol wants them, nothing pinned, an exact timeline', async () => {
        expect(await runConformance(init)).toEqual(NOTHING_HELD);
      });

      test.each(mode.ranks === undefined ? [] : [mode.ranks])('all well: each of the %d ranks of both sides serves', async (ranks) => {
        expect(await runOverRanks(init, ranks)).toEqual(NOTHING_HELD);
      });

      const cases = CASES.filter((each) => applies(each, mode, { api, isStream }));
      test.each(cases.map((each) => [`${each.name}: ${describeExpected(expectedOf(each, mode, isStream), isStream)}`, each] as const))('%s', async (_name, each) => {
        expect(await runConformance(init, each)).toEqual(NOTHING_HELD);
      });
    });
  });
}
