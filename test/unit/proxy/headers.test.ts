import { describe, expect, test } from 'vitest';
import { downstreamHeaders, isValidRequestId, pickRequestId, upstreamHeaders } from '#engine/proxy/headers.ts';

describe('upstreamHeaders', () => {
  const options = { requestId: 'id', openaiApiKey: undefined };
  test('leaves out hop-by-hop fields, those named in Connection, and what each leg writes anew', () => {
    const client = {
      host: 'proxy', 'content-length': '5', expect: '100-continue', connection: 'close, X-Private , keep-alive', 'x-private': 'a', 'keep-alive': '1',
      te: 'trailers', 'transfer-encoding': 'chunked', upgrade: 'h2c', 'proxy-authorization': 'Basic x', 'x-request-id': 'other', 'user-agent': 'ua', cookie: 'a=1',
    };
    expect(upstreamHeaders(client, options)).toEqual({ 'user-agent': 'ua', cookie: 'a=1', 'x-request-id': 'id' });
  });
  test('joins lists', () => {
    expect(upstreamHeaders({ 'x-list': ['a', 'b'] }, options)['x-list']).toBe('a, b');
  });
});

test('downstreamHeaders drops fields that Connection names before or after they come', () => {
  const raw = ['X-Before', '1', 'Connection', 'x-before, X-After', 'X-After', '2', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'Trailer', 'x'];
  expect(downstreamHeaders(raw.map((text) => Buffer.from(text)), 'id')).toEqual(['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'X-Request-Id', 'id']);
});

test.each([
  ['abc', true],
  ['a b', true],
  ['x'.repeat(256), true],
  ['x'.repeat(257), false],
  ['', false],
  [' a', false],
  ['a\n', false],
  ['a\u0007b', false],
  ['é', false],
  [undefined, false],
  [5, false],
])('the request id %j is valid: %s', (id, isValid) => {
  expect(isValidRequestId(id)).toBe(isValid);
  expect(pickRequestId(id as string)).toMatch(isValid ? /^(?:abc|a b|x{256})$/ : /^[0-9a-f-]{36}$/);
});
