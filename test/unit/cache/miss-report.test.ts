import { expect, it } from 'vitest';
import { reportSteps, type ReportContext } from '#engine/cache/miss-report.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';
import { identity, stored } from '../kv-index/events.ts';

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
