import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { fc } from '../../support/properties.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { APP_SCHEME_PRIVILEGES, createAppProtocol, resolveAsset } from '../../../electron/main/app-protocol.ts';

let folder: string;
let root: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pdscope-protocol-'));
  root = join(folder, 'renderer');
  mkdirSync(join(root, 'assets'), { recursive: true });
  writeFileSync(join(folder, 'secret.js'), 'secret');
  writeFileSync(join(folder, 'renderer-sibling.js'), 'secret');
  writeFileSync(join(root, 'index.html'), '<script nonce="PDSCOPE_NONCE"></script><style nonce="PDSCOPE_NONCE"></style>');
  writeFileSync(join(root, 'assets', 'index.js'), 'run()');
  writeFileSync(join(root, 'assets', 'tool.exe'), 'MZ');
});

afterAll(() => rmSync(folder, { recursive: true }));

const get = (url: string, method = 'GET'): Promise<Response> => createAppProtocol(root)(new Request(url, { method }));

describe('app protocol', () => {
  it('is a standard, secure scheme that cannot bypass the policy', () => {
    expect(APP_SCHEME_PRIVILEGES).toEqual({ scheme: 'app', privileges: { standard: true, secure: true, supportFetchAPI: true } });
  });

  it('serves the page with a policy whose nonce is in it', async () => {
    const response = await get('app://pdscope/');
    const html = await response.text();
    const policy = response.headers.get('content-security-policy') ?? '';
    const nonce = /style-src 'self' 'nonce-([A-Za-z0-9+/=]{24})'/.exec(policy)?.[1];
    expect(response.status).toBe(200);
    expect(html).toBe(`<script nonce="${nonce}"></script><style nonce="${nonce}"></style>`);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).not.toMatch(/unsafe|https?:|ws:|\*/);
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(response.headers.get('cache-control')).toBe('no-store');
  });

  it('never uses a nonce twice', async () => {
    const policies = await Promise.all(Array.from({ length: 20 }, async () => (await get('app://pdscope/index.html')).headers.get('content-security-policy')));
    expect(new Set(policies).size).toBe(20);
  });

  it('serves files with their type', async () => {
    const response = await get('app://pdscope/assets/index.js?v=1');
    expect(await response.text()).toBe('run()');
    expect(response.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  });

  it.each([
    ['app://pdscope/..%2fsecret.js', 403],
    ['app://pdscope/assets/..%2f..%2fsecret.js', 403],
    ['app://pdscope/..%2frenderer-sibling.js', 403],
    ['app://pdscope/..%5csecret.js', 403],
    ['app://pdscope/%00index.html', 403],
    ['app://pdscope/%E0%A4%A', 403],
    // The URL parser folds these itself; what is left does not exist below the root.
    ['app://pdscope/../secret.js', 404],
    ['app://pdscope/%2e%2e/secret.js', 404],
    ['app://pdscope//etc/passwd', 404],
    ['app://pdscope/assets', 404],
    ['app://pdscope/assets/tool.exe', 404],
    ['app://pdscope/missing.js', 404],
    ['app://elsewhere/index.html', 404],
  ])('answers %s with %i', async (url, status) => {
    const response = await get(url);
    expect(response.status).toBe(status);
    expect(await response.text()).not.toContain('secret');
  });

  it('refuses methods that would change something', async () => {
    expect((await get('app://pdscope/index.html', 'POST')).status).toBe(405);
    const head = await get('app://pdscope/index.html', 'HEAD');
    expect([head.status, await head.text()]).toEqual([200, '']);
  });
});

describe('resolveAsset', () => {
  it('never leaves the root, whatever the path', () => {
    const piece = fc.constantFrom('..', '.', '%2e%2e', '%2f', '%5c', '/', '\\', 'a', '%00', 'C:', '~', '%252e');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const path = resolveAsset(root, `/${pieces.join('')}`);
        expect(path === undefined || path.startsWith(root + sep)).toBe(true);
      }),
    );
  });
});
