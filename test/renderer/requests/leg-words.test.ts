import { expect, it } from 'vitest';
import { legWords } from '../../../renderer/src/features/requests/detail/leg-words.ts';

it.each([
  ['prefill', 1, {}, 'prefill leg'],
  ['decode', 2, {}, 'decode leg, attempt 2'],
  ['encode', 3, { 'x-request-id': 'req-1:1:0a1b2c' }, 'encode leg, item 2'],
  ['encode', 2, {}, 'encode leg'],
] as const)('calls a %s leg of attempt %i %j "%s"', (kind, attempt, requestHeaders, expected) => {
  expect(legWords({ kind, attempt, requestHeaders })).toBe(expected);
});
