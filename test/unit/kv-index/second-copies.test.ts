import { expect, it } from 'vitest';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { identity, stored } from './events.ts';

it('counts blocks stored again while they were held, on the GPU, and apart what may be an announcement', () => {
  const p0 = new KvIndex().open(identity('p0'));
  p0.apply(stored([1, 2]), { atUnixMs: 10_000 });
  p0.apply(stored([1, 2]), { atUnixMs: 11_000 });
  p0.apply(stored([1, 2], { medium: 'CPU' }), { atUnixMs: 11_000 });
  p0.apply(stored([1, 2], { medium: 'CPU' }), { atUnixMs: 11_000 });
  expect(p0.secondCopies.sum(5, 15)).toEqual({ blocks: 2, tokens: 4, announced: 0 });
  p0.apply(stored([3], { parent: 2, tokens: [7, 7] }), { atUnixMs: 12_000, isReporting: true });
  p0.apply(stored([1, 2]), { atUnixMs: 13_000, isReporting: true });
  expect([p0.secondCopies.sum(5, 12), p0.secondCopies.sum(12, 15)]).toEqual([{ blocks: 2, tokens: 4, announced: 0 }, { blocks: 0, tokens: 0, announced: 2 }]);
});
