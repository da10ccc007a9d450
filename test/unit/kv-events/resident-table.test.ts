import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InstanceIdSchema, streamId } from '#shared/ids.ts';
import { OPERATION_INPUTS } from '#shared/operations.ts';
import { readHashes, type BlockHashes } from '#engine/kv-events/block-hashes.ts';
import { BlockStore } from '#engine/kv-events/block-store.ts';
import type { RemovedEvent, StoredEvent } from '#engine/kv-events/kv-event.ts';
import { queryResident, type ResidentStream } from '#engine/kv-events/resident-query.ts';
import { ResidentTable } from '#engine/kv-events/resident-table.ts';

function hashes(values: readonly unknown[]): BlockHashes {
  const read = readHashes(values);
  if (typeof read === 'string') throw new Error(read);
  return read;
}

function stored(values: readonly unknown[], extra: Partial<StoredEvent> = {}): StoredEvent {
  const list = hashes(values);
  const blockSize = extra.blockSize ?? 2;
  return {
    kind: 'stored', hashes: list, parent: undefined, tokens: Uint32Array.from({ length: values.length * blockSize }, (_, index) => 100 + index), blockSize,
    loraId: undefined, loraName: undefined, medium: 'GPU', groupIdx: 0, specKind: undefined, slidingWindow: undefined, locality: undefined,
    ownership: undefined, sessionId: undefined, cacheSalt: undefined, extraKeys: undefined, isBigram: false, ...extra,
  };
}

function removed(values: readonly unknown[], extra: Partial<RemovedEvent> = {}): RemovedEvent {
  return { kind: 'removed', hashes: hashes(values), medium: 'GPU', groupIdx: 0, locality: undefined, ownership: undefined, remainingCopies: undefined, ...extra };
}

function stream(rank: number, store: BlockStore): ResidentStream {
  const instance = InstanceIdSchema.parse('p0');
  return { identity: { id: streamId(instance, rank), instance, instanceName: 'P0', rank }, resident: new ResidentTable(store) };
}

const newStore = (capacity = 1000, tokenBytes = 1 << 24) => new BlockStore({ capacity, tokenBytes });
const query = (input: object = {}) => OPERATION_INPUTS['kv.blocks'].parse({ limit: 2000, ...input });

describe('ResidentTable', () => {
  it('counts copies, because engines store the same hash twice', () => {
    const store = newStore();
    const s = stream(0, store);
    s.resident.apply(stored([1]), 10);
    s.resident.apply(stored([1]), 20);
    expect(queryResident([s], store, query()).blocks).toMatchObject([{ copies: 2, stores: 2, storedAtUnixMs: 10 }]);
    s.resident.apply(removed([1]), 30);
    expect(s.resident.counts()).toEqual([{ medium: 'GPU', blocks: 1 }]);
    s.resident.apply(removed([1]), 40);
    s.resident.apply(removed([1]), 50);
    expect(s.resident.counts()).toEqual([{ medium: 'GPU', blocks: 0 }]);
    expect(s.resident.unknownRemovals).toBe(1);
  });

  it('keeps groups, media, locality and ownership apart, whatever the case of the medium', () => {
    const store = newStore();
    const { resident } = stream(0, store);
    resident.apply(stored([1], { medium: undefined }), 1);
    resident.apply(stored([1], { medium: 'cpu' }), 1);
    resident.apply(stored([1], { medium: 'CPU', groupIdx: 1 }), 1);
    resident.apply(stored([1], { medium: 'STORAGE', locality: 'REMOTE', ownership: 'kvr' }), 1);
    expect(resident.counts()).toEqual([{ medium: 'GPU', blocks: 1 }, { medium: 'CPU', blocks: 2 }, { medium: 'STORAGE', blocks: 1 }]);
    resident.apply(removed([1], { medium: 'STORAGE' }), 2);
    resident.apply(removed([1], { medium: 'CPU' }), 2);
    expect(resident.counts()).toEqual([{ medium: 'GPU', blocks: 1 }, { medium: 'CPU', blocks: 1 }, { medium: 'STORAGE', blocks: 1 }]);
    expect(resident.unknownRemovals).toBe(1);
  });

  it('clears the GPU of its own rank only', () => {
    const store = newStore();
    const [rank0, rank1] = [stream(0, store), stream(1, store)];
    rank0.resident.apply(stored([1, 2], { groupIdx: 1 }), 1);
    rank0.resident.apply(stored([1], { medium: undefined, groupIdx: undefined }), 1);
    rank0.resident.apply(stored([1], { medium: 'CPU' }), 1);
    rank1.resident.apply(stored([1]), 1);
    rank0.resident.apply({ kind: 'cleared' }, 2);
    expect(rank0.resident.counts()).toEqual([{ medium: 'GPU', blocks: 0 }, { medium: 'CPU', blocks: 1 }]);
    expect(rank1.resident.counts()).toEqual([{ medium: 'GPU', blocks: 1 }]);
    rank0.resident.reset();
    expect(rank0.resident.counts()).toEqual([]);
    expect(store.size).toBe(1);
  });

  it('knows tokens and parents block by block when the sum is exact', () => {
    const store = newStore();
    const s = stream(0, store);
    s.resident.apply(stored([7, -8], { parent: hashes([6]), tokens: Uint32Array.of(1, 2, 3, 4) }), 1);
    expect(queryResident([s], store, query()).blocks).toEqual([
      { hash: 'fffffffffffffff8', stream: 'p0/0', instanceName: 'P0', medium: 'GPU', groupIdx: 0, parent: '0000000000000007', blockSize: 2, tokens: [3, 4], copies: 1, storedAtUnixMs: 1, stores: 1 },
      { hash: '0000000000000007', stream: 'p0/0', instanceName: 'P0', medium: 'GPU', groupIdx: 0, parent: '0000000000000006', blockSize: 2, tokens: [1, 2], copies: 1, storedAtUnixMs: 1, stores: 1 },
    ]);
  });

  it('does not pair hashes and tokens of sliding-window groups, nor invent those of placeholders', () => {
    const store = newStore();
    const s = stream(0, store);
    s.resident.apply(stored([7], { parent: hashes([6]), tokens: Uint32Array.of(1, 2, 3, 4) }), 1);
    s.resident.apply(stored([8], { medium: 'CPU', tokens: new Uint32Array(0), blockSize: 0 }), 2);
    s.resident.apply(stored([], {}), 3);
    const { blocks } = queryResident([s], store, query());
    expect(blocks.map((block) => [block.hash.at(-1), block.parent, block.tokens, block.blockSize])).toEqual([['8', undefined, undefined, undefined], ['7', undefined, undefined, 2]]);
  });

  it('finds a digest by itself and by its integer form, which name the same block', () => {
    const store = newStore();
    const s = stream(0, store);
    const digest = Buffer.from('a3da5751f73e1ba159753d0b02ef8ecc524830c3051f50c8c910c6b15f1388cf', 'hex');
    const second = Buffer.from('b509bd3e86430b84c617f7cde4bd64d187d4effc887d9262b97a1432d92956be', 'hex');
    s.resident.apply(stored([digest, second]), 1);
    const [block] = queryResident([s], store, query({ hash: 'B97A' })).blocks;
    expect(block).toMatchObject({ hash: second.toString('hex'), parent: digest.toString('hex') });
    expect(queryResident([s], store, query({ hash: 'a3da57' })).matching).toBe(1);
    expect(queryResident([s], store, query({ hash: digest.toString('hex') })).blocks.map((found) => found.hash)).toEqual([digest.toString('hex')]);
    expect(queryResident([s], store, query({ hash: digest.toString('hex').slice(0, 20) })).matching).toBe(1);
    expect(queryResident([s], store, query({ hash: `00${digest.toString('hex').slice(2)}` })).matching).toBe(0);
    s.resident.apply(removed([14488298466357512399n]), 2);
    expect(queryResident([s], store, query()).blocks.map((found) => found.hash)).toEqual([second.toString('hex')]);
  });

  it('stops at a stream with residencies without end', () => {
    const store = newStore();
    const { resident } = stream(0, store);
    for (let group = 0; group < 300; group += 1) resident.apply(stored([group], { groupIdx: group }), 1);
    expect(resident.residencies).toHaveLength(256);
    expect(resident.untracked).toBe(44);
  });
});

describe('bounds', () => {
  it('lets the oldest block go when full, and counts it', () => {
    const store = newStore(3);
    const s = stream(0, store);
    for (let hash = 1; hash <= 5; hash += 1) s.resident.apply(stored([hash]), hash);
    const page = queryResident([s], store, query());
    expect(page.blocks.map((block) => block.hash.at(-1))).toEqual(['5', '4', '3']);
    expect(page).toMatchObject({ total: 3, matching: 3, evicted: 2 });
  });

  it('reaps forgotten blocks before it evicts live ones', () => {
    const store = newStore(4);
    const [a, b] = [stream(0, store), stream(1, store)];
    a.resident.apply(stored([1, 2, 3]), 1);
    b.resident.apply(stored([9]), 2);
    a.resident.reset();
    expect(store.size).toBe(1);
    b.resident.apply(stored([10, 11, 12]), 3);
    expect(store.evicted).toBe(0);
    expect(b.resident.counts()).toEqual([{ medium: 'GPU', blocks: 4 }]);
  });

  it('keeps blocks without tokens beyond the token budget, and uses freed room again', () => {
    const store = newStore(100_000, 2 * 65_536 * 4);
    const s = stream(0, store);
    const perSegment = 65_536 / 2;
    for (let hash = 0; hash < 2 * perSegment + 1; hash += 1) s.resident.apply(stored([hash]), 1);
    const last = 2 * perSegment;
    expect(queryResident([s], store, query({ limit: 1 })).blocks[0]?.tokens).toBeUndefined();
    s.resident.apply(removed([0, last]), 2);
    s.resident.apply(stored([last]), 3);
    expect(queryResident([s], store, query({ limit: 1 })).blocks[0]).toMatchObject({ hash: last.toString(16).padStart(16, '0'), tokens: [100, 101] });
    expect(store.tokenBytes).toBe(2 * 65_536 * 4);
  });
});

describe('queries', () => {
  it('select by stream, medium and hash, newest first, and count beyond the limit', () => {
    const store = newStore();
    const [a, b] = [stream(0, store), stream(1, store)];
    for (let hash = 1; hash <= 20; hash += 1) a.resident.apply(stored([hash]), hash);
    b.resident.apply(stored([0x10n << 56n]), 30);
    b.resident.apply(stored([1], { medium: 'CPU' }), 31);
    const both = [a, b];
    expect(queryResident(both, store, query({ limit: 2 }))).toMatchObject({ matching: 22, total: 22, blocks: [{ medium: 'CPU' }, { hash: '1000000000000000' }] });
    expect(queryResident(both, store, query({ stream: 'p0/0', limit: 1 }))).toMatchObject({ matching: 20, total: 22, blocks: [{ hash: '0000000000000014' }] });
    expect(queryResident(both, store, query({ medium: 'cpu' }))).toMatchObject({ matching: 1, blocks: [{ stream: 'p0/1' }] });
    expect(queryResident(both, store, query({ hash: '10' }))).toMatchObject({ matching: 1 });
    expect(queryResident(both, store, query({ hash: '000000000000001' })).blocks.map((block) => block.hash.at(-1))).toEqual(['4', '3', '2', '1', '0']);
    expect(queryResident(both, store, query({ hash: '0000000000000001' })).blocks.map((block) => [block.stream, block.medium])).toEqual([['p0/1', 'CPU'], ['p0/0', 'GPU']]);
    expect(queryResident(both, store, query({ hash: '0000000000000099' }))).toMatchObject({ matching: 0, blocks: [] });
    expect(queryResident(both, store, query({ hash: '00', limit: 3 }))).toMatchObject({ matching: 21, blocks: [{ medium: 'CPU' }, { hash: '0000000000000014' }, { hash: '0000000000000013' }] });
    expect(queryResident(both, store, query()).byStream).toEqual([
      { stream: 'p0/0', instanceName: 'P0', resident: [{ medium: 'GPU', blocks: 20 }] },
      { stream: 'p0/1', instanceName: 'P0', resident: [{ medium: 'GPU', blocks: 1 }, { medium: 'CPU', blocks: 1 }] },
    ]);
  });
});

it('finds by any prefix of a hash exactly what text comparison finds', () => {
  fc.assert(fc.property(fc.array(fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), { minLength: 1, maxLength: 20 }), fc.nat(19), fc.integer({ min: 1, max: 16 }), (values, pick, digits) => {
    const store = newStore();
    const s = stream(0, store);
    s.resident.apply(stored(values), 1);
    const all = new Set(values.map((value) => value.toString(16).padStart(16, '0')));
    const hash = Array.from(all)[pick % all.size]?.slice(0, digits) ?? '';
    const found = queryResident([s], store, query({ hash })).blocks.map((block) => block.hash);
    expect(found.sort()).toEqual(Array.from(all).filter((text) => text.startsWith(hash)).sort());
  }));
});

describe('any interleaving', () => {
  type Step =
    | { readonly kind: 'store' | 'remove'; readonly rank: number; readonly list: readonly number[]; readonly medium: string; readonly group: number | undefined }
    | { readonly kind: 'clear' | 'restart'; readonly rank: number };

  const target = { rank: fc.nat(1), list: fc.array(fc.integer({ min: -4, max: 8 }), { maxLength: 5 }), medium: fc.constantFrom('GPU', 'gpu', 'CPU'), group: fc.constantFrom(undefined, 0, 1) };
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('store' as const), ...target }) },
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('remove' as const), ...target }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('clear' as const, 'restart' as const), rank: fc.nat(1) }) },
  );

  it('leaves the table equal to a naive model', () => {
    fc.assert(fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const store = newStore();
      const streams = [stream(0, store), stream(1, store)];
      const model = new Map<string, number>();
      let unknown = 0;
      for (const s of steps) {
        const resident = streams[s.rank]?.resident;
        if (resident === undefined) throw new Error('no such rank');
        const prefix = `${s.rank}|`;
        switch (s.kind) {
          case 'store': case 'remove': {
            const place = `${prefix}${s.medium.toUpperCase()}|${s.group ?? '-'}|`;
            for (const hash of s.list) {
              const key = place + BigInt.asUintN(64, BigInt(hash)).toString(16).padStart(16, '0');
              const copies = model.get(key) ?? 0;
              if (s.kind === 'store') model.set(key, copies + 1);
              else if (copies === 0) unknown += 1;
              else if (copies === 1) model.delete(key);
              else model.set(key, copies - 1);
            }
            resident.apply(s.kind === 'store' ? stored(s.list, { medium: s.medium, groupIdx: s.group }) : removed(s.list, { medium: s.medium, groupIdx: s.group }), 1);
            break;
          }
          case 'clear':
            for (const key of Array.from(model.keys())) if (key.startsWith(`${prefix}GPU|`)) model.delete(key);
            resident.apply({ kind: 'cleared' }, 1);
            break;
          case 'restart':
            for (const key of Array.from(model.keys())) if (key.startsWith(prefix)) model.delete(key);
            resident.reset();
            break;
        }
      }
      const { blocks, total } = queryResident(streams, store, query());
      const seen = blocks.map((block) => [`${block.stream.at(-1)}|${block.medium}|${block.groupIdx ?? '-'}|${block.hash}`, block.copies] as const);
      expect(new Map(seen)).toEqual(model);
      expect(total).toBe(model.size);
      expect(streams.reduce((sum, s) => sum + s.resident.unknownRemovals, 0)).toBe(unknown);
    }), { numRuns: 400 });
  });

  it('never holds more than its capacity, and always the newest', () => {
    const ops = fc.array(fc.oneof(
      fc.record({ hash: fc.nat(30), isStore: fc.constant(true), isClear: fc.constant(false) }),
      fc.record({ hash: fc.nat(30), isStore: fc.boolean(), isClear: fc.boolean() }),
    ), { maxLength: 200 });
    fc.assert(fc.property(ops, fc.integer({ min: 1, max: 8 }), (steps, capacity) => {
      const store = newStore(capacity);
      const s = stream(0, store);
      // Insertion order of a Map is age.
      const model = new Map<number, number>();
      for (const { hash, isStore, isClear } of steps) {
        if (isClear) {
          s.resident.apply({ kind: 'cleared' }, 1);
          model.clear();
        } else if (isStore) {
          if (!model.has(hash) && model.size === capacity) model.delete(Array.from(model.keys())[0] ?? -1);
          model.set(hash, (model.get(hash) ?? 0) + 1);
          s.resident.apply(stored([hash]), 1);
        } else {
          const copies = model.get(hash) ?? 0;
          if (copies > 1) model.set(hash, copies - 1);
          else model.delete(hash);
          s.resident.apply(removed([hash]), 1);
        }
      }
      const { blocks } = queryResident([s], store, query());
      expect(blocks.map((block) => [Number.parseInt(block.hash, 16), block.copies])).toEqual(Array.from(model).reverse());
    }), { numRuns: 400 });
  });
});
