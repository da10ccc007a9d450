import { fc } from '../../support/properties.ts';
import { expect, test } from 'vitest';
import { SseScanner } from '#engine/proxy/sse-scanner.ts';

/** Events by the standard's line rules, from the whole text. */
function countWhole(text: string): { events: number; isAtBorder: boolean } {
  let events = 0;
  let lines = 0;
  const parts = text.split('\n');
  const rest = parts.pop()?.replace(/^\r$/, '') ?? '';
  for (const part of parts) {
    const line = part.endsWith('\r') ? part.slice(0, -1) : part;
    if (line === '') {
      if (lines > 0) events++;
      lines = 0;
    } else if (!line.startsWith(':')) lines++;
  }
  return { events, isAtBorder: lines === 0 && rest === '' };
}

function scan(pieces: readonly Buffer[]): { events: number; isAtBorder: boolean } {
  const scanner = new SseScanner();
  let events = 0;
  for (const piece of pieces) events += scanner.scan(piece);
  return { events, isAtBorder: scanner.isAtBorder };
}

test.each([
  ['data: a\n\n', 1, true],
  ['data: a\n\ndata: b\n\n', 2, true],
  ['data: a\ndata: b\n\n', 1, true],
  ['data: a\r\n\r\ndata: [DONE]\r\n\r\n', 2, true],
  [': ping\n\n', 0, true],
  [': ping\ndata: a\n\n', 1, true],
  ['\n\n\n', 0, true],
  ['data: a\n', 0, false],
  ['data: a', 0, false],
  ['data: a\n\ndata: {"c', 1, false],
])('%j has %i complete events', (text, events, isAtBorder) => {
  expect(scan([Buffer.from(text)])).toEqual({ events, isAtBorder });
});

test('the count does not depend on where chunks are cut', () => {
  const line = fc.constantFrom('data: {"a":1}', 'data: é', ': comment', '', 'event: x', 'data:');
  const text = fc.array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\n\n')), { maxLength: 20 }).map((lines) => lines.flat().join(''));
  fc.assert(
    fc.property(text, fc.constantFrom('', 'data: {"cut', '\r', ': c'), fc.array(fc.nat(), { maxLength: 12 }), (body, rest, cuts) => {
      const bytes = Buffer.from(body + rest);
      const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
      const pieces = at.slice(1).map((end, index) => bytes.subarray(at[index], end));
      const expected = countWhole(body + rest);
      // A comment that is still open counts as the middle of a line, too.
      expect(scan(pieces)).toEqual(expected);
      expect(scan([bytes])).toEqual(expected);
    }),
  );
});
