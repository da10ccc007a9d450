/** Content that an engine names by ever new hashes, as a store tier that leaves out salts does. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { HoldingTable } from '#engine/kv-index/holding-table.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { identity, stored } from './events.ts';

const STORES = 2000;

describe('the same content under many hashes', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it('is held once for each hash, and a further one does not look at all of them', () => {
    const index = new KvIndex();
    const stream = index.open(identity('p0'));
    const next = vi.spyOn(HoldingTable.prototype, 'nextOfNode');
    for (let hash = 1; hash <= STORES; hash += 1) stream.apply(stored([hash], { tokens: [7, 8] }), { atUnixMs: hash });
    expect(index.size).toBe(STORES);
    expect(index.totals().nodes).toBe(1);
    expect(next.mock.calls.length).toBeLessThan(STORES * 100);
  });
});
