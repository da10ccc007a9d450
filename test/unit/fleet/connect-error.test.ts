import { describe, expect, it } from 'vitest';
import { describeConnectError } from '#engine/fleet/connect-error.ts';

const coded = (code: string, message = code): Error => Object.assign(new Error(message), { code });

describe('describeConnectError', () => {
  it.each([
    ['ECONNREFUSED', 'refused'],
    ['ENOTFOUND', 'dns'],
    ['EAI_AGAIN', 'dns'],
    ['UND_ERR_CONNECT_TIMEOUT', 'timeout'],
    ['EHOSTUNREACH', 'unreachable'],
    ['ECONNRESET', 'reset'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'tls'],
    ['ERR_SSL_SOMETHING_NEW', 'tls'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls'],
    ['HPE_INVALID_CONSTANT', 'not-http'],
  ])('knows %s', (code, kind) => {
    expect(describeConnectError(coded(code)).kind).toBe(kind);
  });

  it('looks into causes and into the attempts of a dual-stack connect', () => {
    expect(describeConnectError(new Error('fetch failed', { cause: coded('ECONNREFUSED') })).kind).toBe('refused');
    expect(describeConnectError(new AggregateError([coded('ECONNREFUSED'), coded('ENETUNREACH')])).kind).toBe('refused');
  });

  it('takes an expired signal as a timeout', () => {
    expect(describeConnectError(new DOMException('The operation was aborted due to timeout', 'TimeoutError')).kind).toBe('timeout');
  });

  it('hands on what it does not know', () => {
    expect(describeConnectError(coded('EWEIRD', 'strange thing'))).toEqual({ kind: 'other', text: 'strange thing' });
    expect(describeConnectError('plain text')).toEqual({ kind: 'other', text: 'plain text' });
  });
});
