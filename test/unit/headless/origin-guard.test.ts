import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { createOriginGuard, parseHost } from '../../../electron/headless/origin-guard.ts';

describe('parseHost', () => {
  it.each([
    ['localhost:7080', { name: 'localhost', port: 7080 }],
    ['LOCALHOST:80', { name: 'localhost', port: 80 }],
    ['127.0.0.1', { name: '127.0.0.1', port: 80 }],
    ['[::1]:9', { name: '[::1]', port: 9 }],
  ])('reads %s', (host, expected) => {
    expect(parseHost(host)).toEqual(expected);
  });

  it.each(['', ' ', 'a b', 'user@localhost', 'localhost/path', 'localhost?x', 'localhost#x', 'localhost:99999', 'localhost:', '127.1', '0x7f.1', 'http://localhost'])('refuses "%s"', (host) => {
    expect(parseHost(host)).toBeUndefined();
  });
});

describe('origin guard', () => {
  it('on loopback allows its three names and nothing that merely contains one', () => {
    const guard = createOriginGuard('127.0.0.1');
    fc.assert(
      fc.property(fc.domain(), fc.integer({ min: 1, max: 65_535 }), (name, port) => {
        expect(guard.isAllowedHost(`${name}:${port}`)).toBe(false);
        expect(guard.isAllowedHost(`localhost.${name}:${port}`)).toBe(false);
        expect(guard.isOwnOrigin(`http://${name}:${port}`, `localhost:${port}`)).toBe(false);
      }),
    );
    expect(guard.isAllowedHost('localhost:1')).toBe(true);
    expect(guard.isAllowedHost('10.0.0.1:7080')).toBe(false);
    expect(guard.isAllowedHost(undefined)).toBe(false);
  });

  it('compares origin with scheme, name and port', () => {
    const guard = createOriginGuard('127.0.0.1');
    expect(guard.isOwnOrigin('http://localhost:7080', 'localhost:7080')).toBe(true);
    expect(guard.isOwnOrigin('http://localhost', 'localhost:80')).toBe(true);
    for (const origin of ['https://localhost:7080', 'http://localhost:7081', 'http://127.0.0.1:7080', 'null', '', 'http://localhost:7080/', 'http://u@localhost:7080', 'localhost:7080']) {
      expect(guard.isOwnOrigin(origin, 'localhost:7080')).toBe(false);
    }
  });

  it('beyond loopback allows addresses, never names of others', () => {
    const guard = createOriginGuard('0.0.0.0');
    expect(guard.isAllowedHost('10.1.2.3:7080')).toBe(true);
    expect(guard.isAllowedHost('[fe80::1]:7080')).toBe(true);
    expect(guard.isAllowedHost('evil.example:7080')).toBe(false);
    expect(createOriginGuard('gpu7.lab').isAllowedHost('gpu7.lab:7080')).toBe(true);
  });
});
