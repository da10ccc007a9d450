import { fc } from '../../support/properties.ts';
import { describe, expect, test } from 'vitest';
import { editMembers, jsonKey, lastValueOf, memberValue, scanElements, scanMembers } from '#engine/proxy/json-members.ts';

function edit(text: string, edits: Record<string, string | undefined>): string {
  const json = Buffer.from(text);
  const members = scanMembers(json);
  if (members === undefined) throw new Error('not an object');
  return editMembers(json, members, new Map(Object.entries(edits))).toString();
}

test('a key that occurs twice is replaced in both places, however long the value', () => {
  const value = `"${'ü'.repeat(500)}"`;
  expect(edit('{"a":1,"b":2,"a":3}', { a: value, ü: value })).toBe(`{"a":${value},"b":2,"a":${value},"ü":${value}}`);
});

describe('scanMembers', () => {
  test('finds keys and raw values, escaped keys included', () => {
    const json = Buffer.from('  { "a" : 1.50 , "b\\u0063":"x\\"y,}" ,"d":{"a":[1,{"z":"]}"}]},"e":[] } ');
    const members = scanMembers(json) ?? [];
    expect(members.map(({ key }) => key)).toEqual(['a', 'bc', 'd', 'e']);
    expect(members.map(({ valueStart, end }) => json.toString('utf8', valueStart, end))).toEqual(['1.50', '"x\\"y,}"', '{"a":[1,{"z":"]}"}]}', '[]']);
  });

  test('strings of any length, whatever backslashes end them', () => {
    for (let length = 0; length < 120; length++) {
      for (const tail of ['', '\\\\', '\\"', '\\\\\\"', '\\\\\\\\']) {
        const text = `{"k":"${'x'.repeat(length)}${tail}","n":1}`;
        expect(scanMembers(Buffer.from(text))?.map(({ key }) => key)).toEqual(['k', 'n']);
      }
    }
  });

  test.each(['', '[]', '1', '{', '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{"a" 1}', '{a:1}', '{"a":1}}', '{"a":1} x', '{"a":"', '{"a":[1}', '{"a":}', '{"\\x":1}'])(
    '%s is no object',
    (text) => {
      expect(scanMembers(Buffer.from(text))).toBeUndefined();
    },
  );

  test('agrees with JSON.parse on any object, however spaced', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }), fc.constantFrom(undefined, 1, '\t'), (object, space) => {
        const json = Buffer.from(JSON.stringify(object, undefined, space));
        const members = scanMembers(json);
        expect(members?.map(({ key }) => key)).toEqual(Object.keys(object));
        for (const { key, valueStart, end } of members ?? []) {
          expect(JSON.parse(json.toString('utf8', valueStart, end))).toEqual(JSON.parse(JSON.stringify(object[key])));
        }
      }),
    );
  });

  test('never throws and never reads on for ever on arbitrary bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        const members = scanMembers(Buffer.from(bytes));
        expect(members?.every(({ start, valueStart, end }) => start < valueStart && valueStart < end && end < bytes.length)).not.toBe(false);
      }),
    );
  });
});

describe('editMembers', () => {
  test('changes only what is edited', () => {
    const text = '{"id":12345678901234567890, "t" : 1.0,"x":{ "y": 1e3 },"stream":true}';
    expect(edit(text, { stream: 'false' })).toBe('{"id":12345678901234567890, "t" : 1.0,"x":{ "y": 1e3 },"stream":false}');
    expect(edit(text, { t: undefined })).toBe('{"id":12345678901234567890,"x":{ "y": 1e3 },"stream":true}');
    expect(edit(text, { added: '[1]' })).toBe('{"id":12345678901234567890, "t" : 1.0,"x":{ "y": 1e3 },"stream":true,"added":[1]}');
  });

  test('works at the edges', () => {
    expect(edit('{}', { a: '1' })).toBe('{"a":1}');
    expect(edit('{}', { a: undefined })).toBe('{}');
    expect(edit('{"a":1}', { a: undefined })).toBe('{}');
    expect(edit('{"a":1,"a":2}', { a: '3' })).toBe('{"a":3,"a":3}');
    expect(edit('{"a":1,"b":2}', { a: undefined, b: undefined, c: '3' })).toBe('{"c":3}');
  });

  test('equals the same edits on the parsed object', () => {
    const keys = fc.constantFrom('a', 'b', 'stream', 'max_tokens', 'ü"\\');
    fc.assert(
      fc.property(fc.dictionary(keys, fc.jsonValue(), { noNullPrototype: true }), fc.dictionary(keys, fc.option(fc.jsonValue(), { nil: undefined }), { noNullPrototype: true }), (object, edits) => {
        const expected: Record<string, unknown> = JSON.parse(JSON.stringify(object));
        for (const [key, value] of Object.entries(edits)) {
          if (value === undefined) delete expected[key];
          else expected[key] = JSON.parse(JSON.stringify(value));
        }
        const texts = Object.fromEntries(Object.entries(edits).map(([key, value]) => [key, value === undefined ? undefined : JSON.stringify(value)]));
        expect(JSON.parse(edit(JSON.stringify(object), texts))).toEqual(expected);
      }),
    );
  });
});

test('memberValue gives the last of equal keys, as JSON.parse does', () => {
  const json = Buffer.from('{"a":1,"a":2}');
  expect(memberValue(json, scanMembers(json) ?? [], 'a')?.toString()).toBe('2');
  expect(memberValue(json, scanMembers(json) ?? [], 'b')).toBeUndefined();
});

test('lastValueOf reads from bytes that are cut off at their start', () => {
  const tail = Buffer.from('ext \\"usage\\":1"}],"usage": {"prompt_tokens":3},"kv_transfer_params":null}');
  expect(lastValueOf(tail, jsonKey('usage'))?.toString()).toBe('{"prompt_tokens":3}');
  expect(lastValueOf(tail, jsonKey('kv_transfer_params'))?.toString()).toBe('null');
  expect(lastValueOf(tail, jsonKey('metrics'))).toBeUndefined();
  expect(lastValueOf(Buffer.from('"usage":{"cut'), jsonKey('usage'))).toBeUndefined();
});

describe('scanElements', () => {
  test('finds the raw elements', () => {
    const elements = scanElements(Buffer.from(' [ 1.50 , "a,]\\"" ,[2,3], {"x":"]"} , null ] ')) ?? [];
    expect(elements.map((element) => element.toString())).toEqual(['1.50', '"a,]\\""', '[2,3]', '{"x":"]"}', 'null']);
    expect(scanElements(Buffer.from('[]'))).toEqual([]);
  });

  test.each(['', '{}', '[', '[1', '[1,', '[1,]', '[,1]', '[1 2]', '[1]]', '[1] x', '["a]'])('%s is no array', (text) => {
    expect(scanElements(Buffer.from(text))).toBeUndefined();
  });

  test('any array parses element by element', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (values) => {
        const elements = scanElements(Buffer.from(JSON.stringify(values))) ?? [];
        expect(elements.map((element) => JSON.parse(element.toString()) as unknown)).toEqual(JSON.parse(JSON.stringify(values)));
      }),
    );
  });
});
