import { describe, expect, it } from 'vitest';
import { ExtraKeys } from '#engine/kv-index/extra-keys.ts';
import { stored } from './events.ts';

const first = { isFirst: true, owner: 'p0' };
const later = { isFirst: false, owner: 'p0' };

describe('ExtraKeys', () => {
  it('reads the parts of a key in whatever order, and finds it again', () => {
    const keys = new ExtraKeys();
    const event = stored([1], { loraName: 'ad', extraKeys: [['ad', ['img1', 0], ['img2', -4n], 'tenant', Uint8Array.of(0xab, 0xcd), true]] });
    const number = keys.ofBlock(event, 0, first);
    const key = { lora: 'ad', salt: 'tenant', media: [['img1', 0], ['img2', -4]] as const, embeds: 'abcd', other: ['true'] };
    expect(keys.read(number)).toEqual(key);
    expect(keys.find(key)).toBe(number);
    expect(keys.find({ ...key, salt: 'other' })).toBeUndefined();
  });

  it('takes a bare string for the salt on the block at token 0 only', () => {
    const keys = new ExtraKeys();
    const event = stored([1], { extraKeys: [['x']] });
    expect(keys.read(keys.ofBlock(event, 0, first))).toEqual({ salt: 'x' });
    expect(keys.read(keys.ofBlock(event, 0, later))).toEqual({ other: ['x'] });
  });

  it("takes SGLang's salt for the block at token 0, whose descendants inherit it", () => {
    const keys = new ExtraKeys();
    const event = stored([1, 2], { cacheSalt: 's' });
    expect([keys.ofBlock(event, 0, first), keys.ofBlock(event, 1, later)].map((number) => keys.read(number))).toEqual([{ salt: 's' }, {}]);
  });

  it('gives one number to equal keys, none to none, and other ones to LoRA ids of other processes', () => {
    const keys = new ExtraKeys();
    const plain = stored([1], { extraKeys: [[]] });
    expect(keys.ofBlock(plain, 0, first)).toBe(0);
    const named = stored([1], { loraName: 'ad', extraKeys: [['ad']] });
    expect(keys.ofBlock(named, 0, first)).toBe(keys.ofBlock(stored([2], { loraName: 'ad' }), 0, later));
    const numbered = stored([1], { loraId: 3 });
    expect(keys.ofBlock(numbered, 0, first)).not.toBe(keys.ofBlock(numbered, 0, { isFirst: true, owner: 'p1' }));
    expect(keys.read(keys.ofBlock(numbered, 0, first))).toEqual({ lora: 'id 3 of p0' });
  });

  it('gives a number that nobody uses any more to the next key, and not to the old one as well', () => {
    const keys = new ExtraKeys();
    const ad = stored([1], { loraName: 'ad' });
    const salted = stored([1], { extraKeys: [['s']] });
    const number = keys.ofBlock(ad, 0, first);
    keys.retain(number);
    keys.release(number);
    expect(keys.bytes).toBe(0);
    expect(keys.ofBlock(salted, 0, first)).toBe(number);
    expect(keys.read(keys.ofBlock(ad, 0, first))).toEqual({ lora: 'ad' });
    expect(keys.read(number)).toEqual({ salt: 's' });
  });

  it('keeps a digest of a key without end, and still tells it from one that begins alike', () => {
    const keys = new ExtraKeys();
    const long = (end: string): number => keys.ofBlock(stored([1], { extraKeys: [[`${'x'.repeat(100_000)}${end}`]] }), 0, first);
    expect(long('a')).toBe(long('a'));
    expect(long('a')).not.toBe(long('b'));
    expect(keys.read(long('a')).other?.[0]).toMatch(/^\[\["salt","x+ \.\.\. sha256 [0-9a-f]{64}$/);
    expect(keys.bytes).toBeLessThan(2000);
  });
});
