import { describe, expect, it } from 'vitest';
import { devOrigin, isTrustedFrame } from '../../../electron/main/origins.ts';

const trusted = new Set(['app://pdscope']);

describe('isTrustedFrame', () => {
  it('trusts the top frame of the app', () => {
    expect(isTrustedFrame({ url: 'app://pdscope/index.html#/requests', parent: null }, trusted)).toBe(true);
  });

  it.each([
    ['another host of the scheme', { url: 'app://evil/index.html', parent: null }],
    ['a host that only starts alike', { url: 'app://pdscope.evil/', parent: null }],
    ['the host as user name', { url: 'app://pdscope@evil/', parent: null }],
    ['the web', { url: 'https://pdscope/', parent: null }],
    ['a file', { url: 'file:///app/index.html', parent: null }],
    ['about:blank', { url: 'about:blank', parent: null }],
    ['no address', { url: '', parent: null }],
    ['a child frame of the app', { url: 'app://pdscope/', parent: {} }],
    ['a destroyed frame', null],
  ])('refuses %s', (_name, frame) => {
    expect(isTrustedFrame(frame, trusted)).toBe(false);
  });
});

describe('devOrigin', () => {
  it('takes a dev server on loopback', () => {
    expect(devOrigin('http://localhost:5173/', false)).toBe('http://localhost:5173');
    expect(devOrigin('http://[::1]:5173', false)).toBe('http://[::1]:5173');
  });

  it('has none when packaged, elsewhere, or not an address', () => {
    expect(devOrigin('http://localhost:5173', true)).toBeUndefined();
    expect(devOrigin('http://10.0.0.1:5173', false)).toBeUndefined();
    expect(devOrigin('https://localhost:5173', false)).toBeUndefined();
    expect(devOrigin('nonsense', false)).toBeUndefined();
    expect(devOrigin(undefined, false)).toBeUndefined();
  });
});
