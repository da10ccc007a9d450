import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { boundValue } from '#engine/telemetry/bound-value.ts';
import { redactHeaders } from '#engine/telemetry/redact.ts';

describe('boundValue', () => {
  it('leaves small values as they are', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }).filter((value) => typeof value !== 'string'), (value) => {
        expect(boundValue(value)).toEqual(value);
      }),
    );
  });

  it('parses text that holds JSON and keeps integers beyond 2^53 as they were written', () => {
    expect(boundValue('{"a":18446744073709551615,"b":1.5,"c":"9999999999999999999","d":[-9223372036854775808]}')).toEqual({
      a: '18446744073709551615', b: 1.5, c: '9999999999999999999', d: ['-9223372036854775808'],
    });
    expect(boundValue(Buffer.from('[1]'))).toEqual([1]);
    expect(boundValue('{broken')).toBe('{broken');
    expect(boundValue('plain')).toBe('plain');
    expect(boundValue(12n)).toBe('12');
  });

  it('says what it left out, and stays the same when cut again', () => {
    const array = boundValue(Array.from({ length: 10_000 }, () => 1)) as unknown[];
    expect(array).toHaveLength(512);
    expect(array.at(-1)).toBe('... 9489 more');
    expect(boundValue(array)).toBe(array);
    const text = boundValue('x'.repeat(5000));
    expect(text).toMatch(/x\.\.\. 3040 more characters$/);
    expect(boundValue(text)).toBe(text);
    const object = boundValue(Object.fromEntries(Array.from({ length: 600 }, (_, index) => [`k${index}`, index]))) as Record<string, unknown>;
    expect(object['...']).toBe('89 more');
    let deep: unknown = 1;
    for (let depth = 0; depth < 40; depth += 1) deep = { deep };
    expect(JSON.stringify(boundValue(deep))).toContain('... nested deeper');
  });
});

describe('redactHeaders', () => {
  it('hides secrets under all their names and cuts what is too long', () => {
    expect(
      redactHeaders({
        Authorization: 'Bearer x', 'proxy-authorization': 'x', 'api-key': 'x', 'X-Api-Key': 'x', apikey: 'x', Cookie: 'x', 'set-cookie': ['a', 'b'],
        'x-auth-token': 'x', 'x-client-secret': 'x', 'x-ratelimit-remaining-tokens': '7', accept: '*/*', gone: undefined, long: 'y'.repeat(5000),
      }),
    ).toEqual({
      Authorization: '[redacted]', 'proxy-authorization': '[redacted]', 'api-key': '[redacted]', 'X-Api-Key': '[redacted]', apikey: '[redacted]',
      Cookie: '[redacted]', 'set-cookie': '[redacted]', 'x-auth-token': '[redacted]', 'x-client-secret': '[redacted]',
      'x-ratelimit-remaining-tokens': '7', accept: '*/*', long: 'y'.repeat(4096),
    });
  });
});
