import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { ParamsView } from '#engine/proxy/lint/params-view.ts';

const view = (value: unknown): ParamsView => new ParamsView(JSON.stringify(value));

describe('a look at parameters', () => {
  it('reads small values without parsing the rest', () => {
    const params = new ParamsView('{ "a" : "x\\"y", "b":-1.5e2 ,"c":null,"d":true,"big":18446744073709551615, "e":{"f":[1,{"g":"]}"}]} }');
    expect(params.isWhole).toBe(true);
    expect(params.string('a')).toBe('x"y');
    expect(params.number('b')).toBe(-150);
    expect(params.has('c')).toBe(false);
    expect(params.raw('c')).toBe('null');
    expect(params.isTrue('d')).toBe(true);
    expect(params.raw('big')).toBe('18446744073709551615');
    expect(params.raw('e')).toBe('{"f":[1,{"g":"]}"}]}');
    expect(params.string('b')).toBeUndefined();
    expect(params.number('a')).toBeUndefined();
    expect(params.has('nowhere')).toBe(false);
  });

  it.each([
    { value: [], groups: 1, largest: 0 },
    { value: [1], groups: 1, largest: 1 },
    { value: [1, 2, 3], groups: 1, largest: 3 },
    { value: [[]], groups: 1, largest: 0 },
    { value: [[1, 2]], groups: 1, largest: 2 },
    { value: [[1], [2, 3, 4], []], groups: 3, largest: 3 },
  ])('counts the blocks of $value', ({ value, groups, largest }) => {
    expect(view({ remote_block_ids: value, after: 1 }).blocks).toEqual({ groups, largest });
    expect(new ParamsView(`{"remote_block_ids": ${JSON.stringify(value, null, 2)} , "after":1}`)).toMatchObject({ isWhole: true, blocks: { groups, largest } });
  });

  it('counts nothing that is no list of ids, and reads on', () => {
    for (const value of ['x', null, { a: 1 }, ['a', 'b'], [null]]) {
      const params = view({ remote_block_ids: value, after: 7 });
      expect(params.blocks).toBeUndefined();
      expect(params.number('after')).toBe(7);
    }
  });

  it('names the kept KV by engine and request', () => {
    expect(view({ remote_engine_id: 'e', remote_request_id: 'r' }).reference).toBe('e/r');
    expect(view({ remote_engine_id: 'e' }).reference).toBeUndefined();
    expect(view({ remote_engine_id: 'e', remote_request_id: 5 }).reference).toBeUndefined();
  });

  it('knows what Python takes for false', () => {
    for (const value of [null, false, 0, '', [], {}]) expect(view({ a: value }).isFalsy('a')).toBe(true);
    for (const value of [true, 1, 'x', [0], [[]], { a: 1 }]) expect(view({ a: value }).isFalsy('a')).toBe(false);
    expect(view({}).isFalsy('a')).toBe(true);
    expect(new ParamsView('{"a":[ ]}').isFalsy('a')).toBe(true);
  });

  it('gives what was readable of a text that was cut', () => {
    const text = JSON.stringify({ first: 1, remote_block_ids: [[1, 2, 3]], last: 2 });
    for (let length = 0; length < text.length; length += 1) expect(new ParamsView(text.slice(0, length)).isWhole).toBe(false);
    const cut = new ParamsView(text.slice(0, 32));
    expect(cut.number('first')).toBe(1);
    expect(cut.blocks).toBeUndefined();
  });
});

describe('any JSON', () => {
  it('is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 20 }), fc.boolean(), (object, isSpaced) => {
        const text = JSON.stringify(object, null, isSpaced ? 2 : undefined);
        const params = new ParamsView(text);
        expect(params.isWhole).toBe(true);
        const parsed = JSON.parse(text) as Record<string, unknown>;
        for (const [key, value] of Object.entries(parsed)) {
          expect(JSON.parse(params.raw(key) ?? '"missing"')).toEqual(value);
          expect(params.string(key)).toBe(typeof value === 'string' ? value : undefined);
          expect(params.number(key)).toBe(typeof value === 'number' ? value : undefined);
          expect(params.has(key)).toBe(value !== null);
        }
      }),
    );
  });
});
