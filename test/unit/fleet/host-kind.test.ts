import { describe, expect, it } from 'vitest';
import { hostInUrl, kindOfHost, reachableHost } from '#engine/fleet/host-kind.ts';

describe('hosts', () => {
  it.each([
    ['localhost', 'loopback'],
    ['LOCALHOST', 'loopback'],
    ['127.0.0.1', 'loopback'],
    ['127.9.9.9', 'loopback'],
    ['::1', 'loopback'],
    ['[::1]', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['', 'unspecified'],
    ['*', 'unspecified'],
    ['0.0.0.0', 'unspecified'],
    ['::', 'unspecified'],
    ['[::]', 'unspecified'],
    ['10.0.0.1', 'real'],
    ['gpu7', 'real'],
    ['127.0.0.1.evil.example', 'real'],
    ['localhost.evil.example', 'real'],
    ['fd00::1', 'real'],
  ])('%j is %s', (host, kind) => {
    expect(kindOfHost(host)).toBe(kind);
  });

  it.each([
    ['0.0.0.0', '127.0.0.1', '127.0.0.1'],
    ['::', '127.0.0.1', '127.0.0.1'],
    ['10.0.0.1', '10.0.0.1', '10.0.0.1'],
    ['fd00::1', 'fd00::1', '[fd00::1]'],
    ['[fd00::1]', '[fd00::1]', '[fd00::1]'],
  ])('%s is reached at %s, in a URL %s', (host, reached, inUrl) => {
    expect(reachableHost(host)).toBe(reached);
    expect(hostInUrl(host)).toBe(inUrl);
  });
});
