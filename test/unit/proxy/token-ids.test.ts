import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { parseTokenIds, tokenIdsOf } from '#engine/proxy/token-ids.ts';

const ids = fc.array(fc.integer({ min: 0, max: 0xffff_ffff }), { minLength: 1, maxLength: 50 });

describe('parseTokenIds', () => {
  it('reads what JSON.parse reads, however it is spaced', () => {
    const space = fc.constantFrom('', ' ', '\n', '\t ', '\r\n');
    fc.assert(
      fc.property(ids, space, space, (list, before, after) => {
        const text = `${before}[${list.map((id) => `${before}${id}${after}`).join(',')}]${after}`;
        expect([...(parseTokenIds(Buffer.from(text)) ?? [])]).toEqual(JSON.parse(text));
      }),
    );
  });

  it.each(['', '[]', '[', '[1', '[1,', '[1,]', '[,1]', '1', '[1]2', '[-1]', '[1.5]', '[1e3]', '["1"]', '[[1]]', '[1 2]', '[null]', '[4294967296]', '{"a":[1]}', '1[2]', '[1][2]'])(
    'refuses %s',
    (text) => {
      expect(parseTokenIds(Buffer.from(text))).toBeUndefined();
    },
  );
});

describe('tokenIdsOf', () => {
  it('takes lists of u32 only', () => {
    fc.assert(
      fc.property(ids, (list) => {
        expect([...(tokenIdsOf(list) ?? [])]).toEqual(list);
      }),
    );
    for (const value of [undefined, null, 'text', [], [1, -1], [1, 1.5], ['1'], [[1]], [4_294_967_296]]) expect(tokenIdsOf(value)).toBeUndefined();
  });
});
