import { expect, it } from 'vitest';
import { reportSteps, type ReportContext } from '#engine/cache/miss-report.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';
import { identity, removed, stored, tokens } from '../kv-index/events.ts';

const TOKENS = Uint32Array.from([100, 101, 102, 103, 104]);

function explain(blockSizeOf: ReportContext['blockSizeOf']): unknown {
  const index = new KvIndex({ capacity: 100, historyCapacity: 100 });
  const [p0, p1] = [identity('p0'), identity('p1')];
  index.open(p0).apply(stored([1, 2]), { atUnixMs: 1000 });
  index.open(p1);
  const steps = reportSteps(
    { request: 'r1' as RecordId, prompt: { tokens: TOKENS, from: 'render', media: [] }, atUnixMs: 2000, instance: 'p1' as InstanceId, rank: 0, lora: undefined, salt: undefined, leg: 0 },
    { index, roleOf: () => 'prefill', confidenceOf: () => ({ value: 1, reasons: [] }), blockSizeOf },
  );
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

it('explains the first prompt of an instance that has published nothing yet, by the block size that the engine told', () => {
  expect(explain((instance) => (instance === 'p1' ? 2 : undefined))).toMatchObject({
    state: 'ready',
    report: { blockSize: 2, ranges: [{ kind: 'elsewhere', tokens: 4, elsewhere: [{ instanceName: 'P0' }] }, { kind: 'partial-block', tokens: 1 }] },
  });
});

it('says that it is not known where the engine did not tell either', () => {
  expect(explain(() => undefined)).toMatchObject({ report: { ranges: [{ kind: 'unknown', message: 'not known: the instance never published a block with tokens' }] } });
});

it('of a time that the index does not reach back to: what it still has, and that the rest is not known', () => {
  const index = new KvIndex({ capacity: 100, historyCapacity: 1, leastHistory: 1 });
  const [p0, p1] = [index.open(identity('p0')), index.open(identity('p1'))];
  for (const stream of [p0, p1]) {
    stream.apply(stored([1, 2]), { atUnixMs: 1000 });
    // Block 2 goes, and is forgotten for what goes after it.
    stream.apply(removed([2]), { atUnixMs: 3000 });
  }
  p0.apply(stored([7, 8], { tokens: [7, 7, 8, 8] }), { atUnixMs: 3001 });
  p0.apply(removed([8]), { atUnixMs: 3002 });
  p0.apply(stored([9], { tokens: [9, 9] }), { atUnixMs: 3003 });
  p0.apply(stored([10], { tokens: [9, 10] }), { atUnixMs: 3003 });
  p0.apply(stored([11], { tokens: [9, 11] }), { atUnixMs: 3003 });
  const steps = reportSteps(
    { request: 'r1' as RecordId, prompt: { tokens: tokens(100, 101, 102, 103, 104), from: 'render', media: [] }, atUnixMs: 2000, instance: 'p0' as InstanceId, rank: 0, lora: undefined, salt: undefined, leg: 0 },
    { index, roleOf: () => 'prefill', confidenceOf: () => ({ value: 1, reasons: [] }), blockSizeOf: () => 2 },
  );
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  expect(step.value).toMatchObject({
    state: 'ready',
    report: {
      ranges: [{ kind: 'hit', tokens: 2 }, { kind: 'unknown', tokens: 2, message: expect.stringContaining('longer ago than the index remembers') }, { kind: 'partial-block' }],
      matches: [{ stream: 'p0/0', tokens: 2, isLeast: true }, { stream: 'p1/0', tokens: 2, isLeast: true }],
    },
  });
});
