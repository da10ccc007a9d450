import { fc } from '../../../support/properties.ts';
import { expect, test } from 'vitest';
import { EventLines } from '#engine/proxy/connectors/render/event-lines.ts';

test('payloads come whole, across any chunk borders', () => {
  const text = 'data: {"a":"ü\\n"}\n\n: comment\r\ndata:{"b":2}\r\n\r\nevent: x\ndata: [DONE]\n\n';
  const bytes = Buffer.from(text);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: bytes.length })), (borders) => {
      const lines = new EventLines();
      const all: string[] = [];
      let from = 0;
      for (const to of [...borders.toSorted((a, b) => a - b), bytes.length]) {
        all.push(...lines.push(bytes.subarray(from, to)));
        from = to;
      }
      expect(all).toEqual(['{"a":"ü\\n"}', '{"b":2}', '[DONE]']);
    }),
  );
});

test('a line without end is refused', () => {
  const lines = new EventLines();
  const chunk = Buffer.alloc(8 * 1024 * 1024, 0x61);
  expect(() => {
    for (let turn = 0; turn < 5; turn++) lines.push(chunk);
  }).toThrow('an event of more than 32 MiB');
});
