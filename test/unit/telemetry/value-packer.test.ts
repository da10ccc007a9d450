import assert from 'node:assert/strict';
import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { SharedTexts } from '#engine/telemetry/shared-texts.ts';
import { ValuePacker } from '#engine/telemetry/value-packer.ts';
import { readValue } from '#engine/telemetry/value-reader.ts';

/** Packs each value as a record of its own, and reads all of them once the last one was packed. */
function roundTrip(values: readonly unknown[], texts = new SharedTexts()): unknown[] {
  const packer = new ValuePacker(texts);
  const packed = values.map((value, record) => {
    packer.begin(texts, record);
    packer.add(value);
    return Buffer.from(packer.packed);
  });
  return packed.map((bytes) => readValue(bytes, 0, texts));
}

const sizeOf = (value: unknown, texts: SharedTexts, record: number): number => {
  const packer = new ValuePacker(texts);
  packer.begin(texts, record);
  return packer.add(value);
};

const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom('content-type', 'über', '多', '\ud800', '__proto__', 'a\0b', 'constructor'));
const number = fc.oneof(
  fc.double(), fc.integer(), fc.maxSafeInteger(), fc.constantFrom(-0, 0, 127, 128, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 1_800_000_000_000, 0.001, 12.345),
);
const { value: anyValue } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    text, number, fc.boolean(), fc.constantFrom(null, undefined),
    fc.array(number, { maxLength: 12 }),
    fc.array(fc.integer({ min: 0, max: 10 ** 9 }).map((us) => us / 1000), { minLength: 4, maxLength: 30 }),
    fc.array(tie('value'), { maxLength: 6 }),
    fc.dictionary(text, tie('value'), { maxKeys: 6 }),
  ),
}));

describe('packed values', () => {
  it('come back equal, whatever they are and whatever was packed before them', () => {
    fc.assert(fc.property(fc.array(anyValue, { minLength: 1, maxLength: 6 }), (values) => {
      // Twice, so that texts repeat among records.
      const twice = [...values, ...values];
      const read = roundTrip(twice);
      for (const [at, value] of twice.entries()) assert.deepStrictEqual(read[at], plain(value));
    }), { numRuns: 300 });
  });

  it('keep what a name from outside means', () => {
    const hostile: unknown = JSON.parse('{"__proto__":{"isAdmin":true},"a":1}');
    const [read] = roundTrip([hostile]) as [Record<string, unknown>];
    expect(Object.keys(read)).toEqual(['__proto__', 'a']);
    expect(read['isAdmin']).toBeUndefined();
  });

  it('share texts from the second record on that has them, and leave those of one record alone', () => {
    const texts = new SharedTexts();
    const headers = (id: string): object => ({ 'content-type': 'text/event-stream; charset=utf-8', server: 'uvicorn', 'x-request-id': id });
    const sizes = ['first-id-0001', 'other-id-0002', 'third-id-0003'].map((id, record) => sizeOf(headers(id), texts, record));
    expect(sizes[1]).toBe(sizes[0]);
    expect(sizes[2]).toBe(1 + 2 + 2 + 2 + 2 + 'third-id-0003'.length);
    expect(texts.numberOf('third-id-0003')).toBeUndefined();
    const once = new SharedTexts();
    sizeOf([{ id: 'the-same-id' }, { id: 'the-same-id' }], once, 1);
    expect(once.numberOf('the-same-id')).toBeUndefined();
  });

  it('write times as differences', () => {
    const timesMs = Array.from({ length: 100 }, (_, at) => (50_000 + at * 12_000) / 1000);
    expect(sizeOf(timesMs, new SharedTexts(), 0)).toBeLessThan(2 + 100 * 3);
  });

  it('a full table takes no more texts, and values are packed all the same', () => {
    const texts = new SharedTexts();
    const values = Array.from({ length: 5000 }, (_, at) => `text number ${at}`).flatMap((each) => [each, each, each]);
    expect(roundTrip(values, texts)).toEqual(values);
    expect(texts.isFull).toBe(true);
    expect(texts.numberOf('text number 0')).toBeDefined();
    expect(texts.numberOf('text number 4999')).toBeUndefined();
  });

  it.each([[() => 1, 'function'], [1n, 'bigint'], [new Map(), 'object of a class'], [Buffer.from('x'), 'object of a class']])('refuses what it could not give back: %s', (value, what) => {
    expect(() => roundTrip([{ deep: [value] }])).toThrow(new RegExp(what));
  });
});

/** Dictionaries of fast-check have no prototype; what is read is a plain object. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  const copy: Record<string, unknown> = {};
  for (const [name, part] of Object.entries(value)) Object.defineProperty(copy, name, { value: plain(part), enumerable: true, configurable: true, writable: true });
  return copy;
}
