import { createHash } from 'node:crypto';
import { encode } from '@msgpack/msgpack';
import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { InstanceIdSchema, streamId } from '#shared/ids.ts';
import { decodeMessage, decodePayload } from '#engine/kv-events/decode-batch.ts';
import { KvRowLog } from '#engine/kv-events/kv-row-log.ts';
import { SEARCHED_KV_FIELDS } from '#engine/kv-events/searched-fields.ts';
import { compileFilter } from '#shared/filter/compile.ts';
import type { KvRow } from '#shared/kv.ts';
import { readHashes, type BlockHashes } from '#engine/kv-events/block-hashes.ts';
import type { ExtraKey, StoredEvent } from '#engine/kv-events/kv-event.ts';
import type { RowEvent, RowSource } from '#engine/kv-events/kv-row.ts';
import { runOf } from '#engine/kv-events/word-run.ts';
import { frames, vector, vectors } from './golden.ts';
import { amidOthers } from './own-words.ts';
import { referenceRow } from './reference-row.ts';

const instance = InstanceIdSchema.parse('p0');
const source: RowSource = {
  stream: { id: streamId(instance, 1), instance, instanceName: 'P0', rank: 1 }, epoch: 2, seq: 7, tsUnixMs: 1500.5, receivedAtUnixMs: 1600,
};
const notice = (note: string): RowEvent => ({ kind: 'error', note });

function newLog(capacity: number, maxBytes = 1e9): KvRowLog {
  return new KvRowLog({ capacity, maxBytes, dropped: () => 4 });
}

/** One event that stores so many blocks of 16 tokens: hashes 1, 2, 3 ... and tokens 1000, 1001 ... */
function prompt(blocks: number, firstToken = 1000): RowEvent {
  const payload = encode([1, [{
    type: 'BlockStored', block_hashes: Array.from({ length: blocks }, (_, index) => index + 1), parent_block_hash: 9999, block_size: 16, lora_id: null, medium: 'GPU', lora_name: null,
    token_ids: Array.from({ length: blocks * 16 }, (_, index) => firstToken + index),
  }], 0]);
  const result = decodePayload(payload);
  const [event] = result.ok ? result.batch.events : [];
  if (event === undefined) throw new Error('no event');
  return event;
}

/** Numbers of the rows that a filter finds where the log is. */
function foundBy(log: KvRowLog, filter: string): number[] {
  const compiled = compileFilter(filter, SEARCHED_KV_FIELDS);
  if (!compiled.ok) throw new Error(compiled.error);
  return Array.from(log.rows()).filter(compiled.matches).map(({ n }) => n);
}

function golden(name: string): readonly RowEvent[] {
  const result = decodeMessage(frames(vector(name).frames_hex));
  if (!result.ok) throw new Error(result.detail);
  return result.batch.events;
}

describe('KvRowLog', () => {
  it('numbers rows from 1, keeps the newest, and says how many went', () => {
    const log = newLog(3);
    expect(log.lastChange()).toBe(0);
    for (const note of ['a', 'b', 'c', 'd', 'e']) log.append(source, notice(note));
    expect(Array.from(log.rows(), (row) => [row.n, row.note])).toEqual([[3, 'c'], [4, 'd'], [5, 'e']]);
    expect(Array.from(log.changedSince(4), (row) => row.note)).toEqual(['e']);
    expect(Array.from(log.changedSince(0), (row) => row.n)).toEqual([3, 4, 5]);
    expect(log.counters()).toEqual({ kept: 3, capacity: 3, total: 5, evicted: 2, dropped: 4 });
    expect(log.lastChange()).toBe(5);
  });

  it('forgets on clear, and counts on', () => {
    const log = newLog(3);
    log.append(source, notice('a'));
    log.append(source, notice('b'));
    expect(log.clear()).toBe(2);
    expect(log.generation()).toBe(1);
    expect(Array.from(log.rows())).toEqual([]);
    log.append(source, notice('c'));
    expect(Array.from(log.changedSince(0), (row) => [row.n, row.note])).toEqual([[3, 'c']]);
    expect(log.counters()).toMatchObject({ kept: 1, total: 3, evicted: 0 });
  });

  it('is searched by every hash and token of an event, not only by those a row shows', () => {
    const log = newLog(10);
    log.append(source, prompt(512));
    log.append(source, prompt(1, 50_000));
    log.append(source, notice('x'));
    const [long] = log.rows();
    expect([long?.hashes.length, long?.tokens?.length, long?.parent]).toEqual([16, 32, '000000000000270f']);
    for (const hash of [1, 16, 17, 511, 512]) expect(foundBy(log, `hash:${hash.toString(16).padStart(16, '0')}`)).toEqual(hash === 1 ? [1, 2] : [1]);
    for (const token of [1000, 1031, 1032, 1000 + 512 * 16 - 1]) expect(foundBy(log, `token:${token}`)).toEqual([1]);
    expect(foundBy(log, `token:${1000 + 512 * 16}`)).toEqual([]);
    expect(foundBy(log, 'token:50015')).toEqual([2]);
    expect(foundBy(log, 'hash:0000000000000201')).toEqual([]);
  });

  it('is searched by whole digests and by their beginnings, wherever in the event they stand', () => {
    const digest = (index: number): string => createHash('sha256').update(`block ${index}`).digest('hex');
    const payload = encode([1, [{ type: 'BlockRemoved', block_hashes: Array.from({ length: 40 }, (_, index) => Buffer.from(digest(index), 'hex')), medium: 'GPU' }], 0]);
    const result = decodePayload(payload);
    const [event] = result.ok ? result.batch.events : [];
    if (event === undefined) throw new Error('no event');
    const log = newLog(10);
    log.append(source, event);
    for (const index of [0, 15, 16, 39]) {
      for (const digits of [8, 16, 20, 64]) {
        const wanted = digest(index).slice(0, digits);
        expect([foundBy(log, `hash:${wanted}`), foundBy(log, `hash:0x${wanted}`), foundBy(log, wanted)], `${index}, ${digits} digits`).toEqual([[1], [1], [1]]);
      }
      expect(foundBy(log, `-hash:${digest(index)}`)).toEqual([]);
    }
    const other = `${digest(16).slice(0, 15)}${digest(16)[15] === '0' ? '1' : '0'}`;
    for (const wanted of [digest(40), other]) expect([foundBy(log, `hash:${wanted}`), foundBy(log, wanted)]).toEqual([[], []]);
  });

  it('knows the tokens of the newest events wholly, of those before only what their rows show', () => {
    const log = new KvRowLog({ capacity: 100, maxBytes: 1e9, tailTokens: 1000, dropped: () => 0 });
    for (let round = 0; round < 20; round += 1) log.append(source, prompt(10, 10_000 * (round + 1)));
    for (let round = 0; round < 20; round += 1) expect(foundBy(log, `token:${10_000 * (round + 1) + 31}`), `${round}`).toEqual([round + 1]);
    const last = Array.from({ length: 20 }, (_, round) => foundBy(log, `token:${10_000 * (round + 1) + 159}`).length);
    // 128 tokens each of 1000, the rest of a round unused.
    expect(last).toEqual([...Array.from({ length: 13 }, () => 0), ...Array.from({ length: 7 }, () => 1)]);
    log.clear();
    log.append(source, prompt(10, 7000));
    expect([foundBy(log, 'token:7159'), foundBy(log, 'token:200159')]).toEqual([[21], []]);
  });

  it('evicts by bytes too, but keeps the newest however large', () => {
    const [large] = golden('2026-08-20/2f41c894e/stored-large');
    if (large === undefined) throw new Error('no event');
    const probe = newLog(100);
    probe.append(source, large);
    const log = newLog(100, probe.bytes + 10);
    log.append(source, notice('x'));
    log.append(source, large);
    log.append(source, large);
    expect(Array.from(log.rows(), (row) => row.n)).toEqual([3]);
    expect(log.counters()).toMatchObject({ kept: 1, evicted: 2 });
    expect(log.bytes).toBeLessThan(probe.bytes);
    const tiny = newLog(100, 1);
    tiny.append(source, large);
    expect(tiny.counters().kept).toBe(1);
  });

  it('is a plain bounded list to its readers', () => {
    fc.assert(fc.property(fc.array(fc.oneof({ weight: 8, arbitrary: fc.string({ maxLength: 3 }) }, { weight: 1, arbitrary: fc.constant(undefined) }), { maxLength: 60 }), fc.integer({ min: 1, max: 9 }), fc.nat(60), (steps, capacity, since) => {
      const log = newLog(capacity);
      let model: { n: number; note: string }[] = [];
      let n = 0;
      for (const note of steps) {
        if (note === undefined) {
          log.clear();
          model = [];
        } else {
          n += 1;
          log.append(source, notice(note));
          model = [...model, { n, note }].slice(-capacity);
        }
      }
      expect(Array.from(log.rows(), ({ n, note }) => ({ n, note }))).toEqual(model);
      expect(Array.from(log.changedSince(since), (row) => row.n)).toEqual(model.map((row) => row.n).filter((number) => number > since));
    }));
  });
});

const text = fc.oneof(fc.constantFrom('GPU', 'CPU', 'tenant'), fc.string({ maxLength: 6 }), fc.string({ unit: 'binary', maxLength: 500 }));
const optional = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> => fc.option(value, { nil: undefined, freq: 2 });
const hashValue = fc.oneof({ weight: 6, arbitrary: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }) }, { weight: 1, arbitrary: fc.uint8Array({ minLength: 1, maxLength: 40 }) });
const hashes = (maxLength: number, minLength = 0): fc.Arbitrary<BlockHashes> => fc.array(hashValue, { minLength, maxLength }).map((values) => {
  const read = readHashes(values);
  if (typeof read === 'string') throw new Error(read);
  return amidOthers(read);
});
const extraKey = fc.letrec<{ node: ExtraKey }>((tie) => ({
  node: fc.oneof({ maxDepth: 2 }, text, fc.integer(), fc.bigInt(), fc.constant(null), fc.uint8Array({ maxLength: 250 }), fc.array(tie('node'), { maxLength: 4 })),
})).node;
const place = { medium: optional(text), groupIdx: optional(fc.integer({ min: -1, max: 2 })) };
const tier = { ...place, locality: optional(text), ownership: optional(text) };
const storedOf = (minHashes: number, minTokens: number): fc.Arbitrary<StoredEvent> => fc.record({
  kind: fc.constant('stored' as const), hashes: hashes(20, minHashes), parent: optional(hashes(1, 1)), tokens: fc.uint32Array({ minLength: minTokens, maxLength: 40 }).map((tokens) => amidOthers(runOf(tokens))),
  blockSize: fc.constantFrom(0, 16, 2 ** 40), loraId: optional(fc.nat(2)), loraName: optional(text), specKind: optional(text), slidingWindow: optional(fc.nat(2)),
  sessionId: optional(text), cacheSalt: optional(text), extraKeys: optional(fc.array(extraKey, { maxLength: 4 })), isBigram: fc.boolean(), ...tier,
});
const anyEvent: fc.Arbitrary<RowEvent> = fc.oneof(
  storedOf(0, 0),
  fc.record({ kind: fc.constant('removed' as const), hashes: hashes(20), remainingCopies: optional(fc.array(fc.nat(), { maxLength: 20 })), ...tier }),
  fc.constant({ kind: 'cleared' as const }),
  fc.record({ kind: fc.constant('unknown' as const), tag: text, hashes: hashes(20), raw: text, ...place }),
  fc.record({ kind: fc.constant('bad' as const), reason: text, raw: text }),
  fc.record({ kind: fc.constantFrom('gap' as const, 'filled' as const, 'lost' as const, 'restart' as const, 'error' as const), note: text }),
);
const streams = ['p0', 'd0'].map((id) => ({ ...source.stream, id: streamId(InstanceIdSchema.parse(id), 0), instanceName: id.toUpperCase() }));
const anySource: fc.Arbitrary<RowSource> = fc.record({
  stream: fc.constantFrom(...streams), epoch: fc.nat(2), seq: optional(fc.maxSafeNat()), tsUnixMs: optional(fc.double({ noNaN: true })), receivedAtUnixMs: fc.double({ noNaN: true }),
});
const anyStep = fc.record({ source: anySource, event: anyEvent });

/** Appends steps to a log and to a plain list, and compares what they keep. */
class Pair {
  readonly log: KvRowLog;
  #model: { readonly n: number; readonly source: RowSource; readonly event: RowEvent }[] = [];
  #n = 0;
  readonly #capacity: number;
  readonly #maxBytes: number;

  constructor(capacity: number, maxBytes: number) {
    this.#capacity = capacity;
    this.#maxBytes = maxBytes;
    this.log = newLog(capacity, maxBytes);
  }

  append(step: { readonly source: RowSource; readonly event: RowEvent }): void {
    this.#n += 1;
    this.#model.push({ ...step, n: this.#n });
    this.log.append(step.source, step.event);
    if (this.#model.length > 2 * this.#capacity) this.#model = this.#model.slice(-this.#capacity);
  }

  clear(): void {
    this.log.clear();
    this.#model = [];
  }

  /** What the log keeps, as objects and as they cross the wire. */
  actual(): readonly [number, readonly KvRow[], string] {
    const rows = Array.from(this.log.rows());
    return [this.log.counters().total, rows, JSON.stringify(rows)];
  }

  /** How many rows a byte cap leaves is the log's business; which, and what they say, is not. */
  expected(): readonly [number, readonly KvRow[], string] {
    const all = Math.min(this.#model.length, this.#capacity);
    const count = this.#maxBytes === Infinity ? all : Math.max(this.log.counters().kept, Math.min(1, all));
    const rows = this.#model.slice(this.#model.length - count).map(({ n, source, event }) => referenceRow(n, source, event));
    return [this.#n, rows, JSON.stringify(rows)];
  }

  isWithinBytes(): boolean {
    return this.log.counters().kept <= 1 || this.log.bytes <= this.#maxBytes;
  }
}

describe('packed rows', () => {
  it('read like the events they were made from', () => {
    const step = fc.oneof({ weight: 12, arbitrary: anyStep }, { weight: 1, arbitrary: fc.constant('clear' as const) });
    fc.assert(fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 30 }), fc.constantFrom(Infinity, 300, 2000, 20_000), (steps, capacity, maxBytes) => {
      const pair = new Pair(capacity, maxBytes);
      for (const next of steps) {
        if (next === 'clear') pair.clear();
        else pair.append(next);
        expect(pair.isWithinBytes()).toBe(true);
        expect(pair.log.bytes > 0).toBe(next !== 'clear');
        expect(pair.actual()).toStrictEqual(pair.expected());
      }
      expect(pair.actual()).toStrictEqual(pair.expected());
    }), { numRuns: 300 });
  });

  it('stay right while the arena under them goes round', () => {
    // With 66 words, 10,000 rows fill some ten chunks, and the capacities keep from a part of one to more than two.
    fc.assert(fc.property(fc.array(fc.record({ source: anySource, event: fc.oneof({ weight: 9, arbitrary: storedOf(16, 32) }, { weight: 1, arbitrary: anyEvent }) }), { minLength: 1, maxLength: 40 }), fc.constantFrom(7, 1200, 1700, 2100), fc.constantFrom(Infinity, 600_000), (steps, capacity, maxBytes) => {
      const pair = new Pair(capacity, maxBytes);
      for (let round = 0; round < 10_000; round += 1) {
        const step = steps[round % steps.length];
        if (step === undefined) throw new Error('no step');
        pair.append({ ...step, source: { ...step.source, seq: round } });
        if (round === 2000) pair.clear();
      }
      expect(pair.actual()).toStrictEqual(pair.expected());
    }), { numRuns: 12 });
  });

  it('read like the events of every real encoder', () => {
    const pair = new Pair(10_000, Infinity);
    for (const { frames_hex } of vectors) {
      const result = decodeMessage(frames(frames_hex));
      if (!result.ok) throw new Error(result.detail);
      for (const event of result.batch.events) pair.append({ source, event });
    }
    expect(pair.log.counters().kept).toBeGreaterThan(vectors.length);
    expect(pair.actual()).toStrictEqual(pair.expected());
  });

  it('never share a shape with a row that differs in one field', () => {
    const parts = readHashes([1n]);
    if (typeof parts === 'string') throw new Error(parts);
    const tier = { medium: 'GPU', groupIdx: 0, locality: 'LOCAL', ownership: 'a' };
    const stored: StoredEvent = {
      kind: 'stored', hashes: parts, parent: undefined, tokens: runOf(new Uint32Array(16)), blockSize: 16, loraId: 1, loraName: 'a', specKind: 'full', slidingWindow: 1,
      sessionId: undefined, cacheSalt: undefined, extraKeys: undefined, isBigram: false, ...tier,
    };
    const removed: RowEvent = { kind: 'removed', hashes: parts, remainingCopies: undefined, ...tier };
    const unknown: RowEvent = { kind: 'unknown', tag: 't', hashes: parts, medium: 'GPU', groupIdx: 0, raw: '' };
    const place = [{ medium: 'CPU' }, { medium: undefined }, { groupIdx: 1 }, { groupIdx: undefined }];
    const tiers = [...place, { locality: 'REMOTE' }, { ownership: undefined }];
    const numbers = [{ blockSize: 0 }, { loraId: 2 }, { loraName: 'b' }, { specKind: 'window' }, { slidingWindow: undefined }];
    const events: RowEvent[] = [
      stored, ...[...tiers, ...numbers].map((change) => ({ ...stored, ...change })), removed, ...tiers.map((change) => ({ ...removed, ...change })),
      unknown, ...place.map((change) => ({ ...unknown, ...change })), { kind: 'cleared' }, { kind: 'bad', reason: 'r', raw: '' }, notice('r: '),
    ];
    // More shapes than a stream remembers take turns here too.
    for (const list of [events, [stored, ...events.slice(1, 12)].flatMap((event) => [stored, event, removed]), [...events, ...events]]) {
      const pair = new Pair(1000, Infinity);
      for (const event of list) for (const stream of streams) for (const epoch of [1, 2]) pair.append({ source: { ...source, stream, epoch }, event });
      expect(pair.actual()).toStrictEqual(pair.expected());
    }
  });

  it('skip what an append evicts while they are being read', () => {
    const log = newLog(3);
    for (const note of ['a', 'b', 'c']) log.append(source, notice(note));
    const seen: unknown[] = [];
    for (const row of log.rows()) {
      seen.push([row.n, row.note]);
      if (row.n === 1) for (const note of ['d', 'e']) log.append(source, notice(note));
    }
    expect(seen).toEqual([[1, 'a'], [3, 'c']]);
  });

  it('share what repeats: a row like the one before is charged for its own part only', () => {
    const [event] = golden('2026-08-20/2f41c894e/stored-extra-keys');
    if (event === undefined) throw new Error('no event');
    const log = newLog(10);
    log.append(source, event);
    const first = log.bytes;
    log.append({ ...source, seq: 8 }, event);
    const second = log.bytes - first;
    log.append({ ...source, epoch: 3 }, event);
    expect(second).toBeLessThan(first);
    expect(log.bytes - first - second).toBe(first);
  });
});

/** The row that an event has once it was kept. */
function kept(n: number, event: RowEvent): KvRow {
  const log = newLog(2);
  for (let before = 1; before < n; before += 1) log.append(source, notice('before'));
  log.append(source, event);
  const [row] = log.changedSince(n - 1);
  if (row === undefined) throw new Error('no row');
  return row;
}

describe('a row', () => {
  it('has the fields of a stored event, cut to size', () => {
    const [event] = golden('2026-08-20/2f41c894e/stored-extra-keys');
    if (event === undefined) throw new Error('no event');
    expect(kept(9, event)).toEqual({
      n: 9, stream: 'p0/1', instance: 'p0', instanceName: 'P0', rank: 1, epoch: 2, seq: 7, engineTsUnixMs: 1500.5, receivedAtUnixMs: 1600,
      kind: 'stored', hashes: ['c910c6b15f1388cf', 'b97a1432d92956be', '115e07e8277befe8'], hashCount: 3, blockSize: 16, tokenCount: 48,
      tokens: [151644, 872, 198, 9064, 374, 279, 6722, 315, 5616, 30, 151645, 198, 151644, 77091, 198, 151667, ...Array.from({ length: 16 }, (_, index) => 1000 + index)],
      medium: 'GPU', loraName: 'a', loraId: 1, groupIdx: 0, specKind: 'full_attention',
      extraKeys: '[["a",["5d41402abc4b2a76b9719d911017c592",4],"tenant-salt","b8f6f245094fb10387f6273ae1de9c841d63667f323630fc9a96497413b4cdd1"],[["5d41402abc4b2a76b9719d911017c592",-12]],null]',
    });
  });

  it('shows fields that are not known as they came, beside what else it notes', () => {
    const decoded = decodePayload(encode([1.5, [
      { type: 'BlockStored', block_hashes: [1], parent_block_hash: null, token_ids: [1, 2], block_size: 2, medium: 'GPU', cache_salt: 's', colour: ['red', 7] },
      { type: 'BlockRemoved', block_hashes: [1], medium: 'GPU', remaining_copy_counts: [0], reason: 'lru' },
      { type: 'BlockRemoved', block_hashes: [1], medium: 9 },
    ], 0]));
    if (!decoded.ok) throw new Error(decoded.detail);
    expect(decoded.batch.events.map((event) => kept(1, event).note)).toEqual([
      'cache_salt "s"; fields not known: {"colour":["red",7]}', 'copies left: 0; fields not known: {"reason":"lru"}', 'fields not known: {"medium":9}',
    ]);
  });

  it('shows where secondary tiers hold a block, and what an open pull request adds', () => {
    const [, store, remove] = golden('mirror/vllm-2026-09/stored-session-ownership');
    expect(store === undefined ? undefined : kept(1, store)).toMatchObject({ medium: 'STORAGE', locality: 'LOCAL', ownership: 'kvcr' });
    expect(remove === undefined ? undefined : kept(1, remove)).toMatchObject({ kind: 'removed', ownership: 'kvcr' });
    const [copies] = golden('mirror/vllm-open-pr/removed-remaining-copy-counts');
    expect(copies === undefined ? undefined : kept(1, copies).note).toBe('copies left: 1, 0');
    const [unknown] = golden('mirror/vllm-open-pr/unknown-event-type');
    expect(unknown === undefined ? undefined : kept(1, unknown)).toMatchObject({ kind: 'unknown', hashCount: 1, medium: 'GPU', note: expect.stringContaining('BlockInactive: {"type":"BlockInactive"') as string });
  });
});
