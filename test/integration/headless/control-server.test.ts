import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { HostMessage } from '#shared/wire.ts';
import { ASSET_JS, cookieOf, openSocket, pathOf, startControlFixture, type ControlFixture } from './control-fixture.ts';

const PAGE = { accept: 'text/html' };

describe('control server', () => {
  let fixture: ControlFixture;
  let bearer: Readonly<Record<string, string>>;

  beforeAll(async () => {
    fixture = await startControlFixture();
    bearer = { authorization: `Bearer ${fixture.control.apiToken}` };
  });
  afterAll(() => fixture.close());

  describe('signing in', () => {
    it('exchanges the link for a cookie that scripts and other sites cannot use, and goes to the page', async () => {
      const answer = await fixture.ask('GET', pathOf(fixture.control.issueLoginUrl()), PAGE);
      expect(answer.status).toBe(303);
      expect(answer.headers['location']).toBe('/');
      expect(answer.headers['set-cookie']?.[0]).toMatch(/^pdscope_session_\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/u);
      const page = await fixture.ask('GET', '/', { ...PAGE, cookie: cookieOf(answer.headers) });
      expect(page.status).toBe(200);
      expect(page.body).toContain('./assets/index-abc.js');
    });

    it('takes a link once: a second use says so, and gives no cookie', async () => {
      const path = pathOf(fixture.control.issueLoginUrl());
      const cookie = cookieOf((await fixture.ask('GET', path)).headers);
      const again = await fixture.ask('GET', path, PAGE);
      expect(again.status).toBe(401);
      expect(again.headers['set-cookie']).toBeUndefined();
      expect(again.body).toContain('This link has been used');
      expect(again.body).toContain('<code>pdscope link</code>');
      const sameBrowser = await fixture.ask('GET', path, { ...PAGE, cookie });
      expect(sameBrowser.status).toBe(303);
    });

    it.each(['', 'x', '%00', 'a'.repeat(5000)])('refuses a token that was never issued (%#)', async (token) => {
      const answer = await fixture.ask('GET', `/login?token=${token}`, PAGE);
      expect(answer.status).toBe(401);
      expect(answer.body).toContain('This link is not known');
    });

    it('does not take the API token in a URL', async () => {
      const answer = await fixture.ask('GET', `/login?token=${fixture.control.apiToken}`, PAGE);
      expect(answer.status).toBe(401);
    });

    it.each([
      ['/', 'text/html'],
      ['/assets/index-abc.js', '*/*'],
      ['/api/operations', 'application/json'],
    ])('answers 401 without a sign-in: %s', async (path, accept) => {
      const answer = await fixture.ask('GET', path, { accept });
      expect(answer.status).toBe(401);
      expect(answer.body).not.toContain('index-abc');
    });

    it.each(['Bearer wrong', 'Bearer ', 'Basic abc', 'bearer x y'])('answers 401 to %s', async (authorization) => {
      expect((await fixture.ask('GET', '/api/operations', { authorization })).status).toBe(401);
    });

    it('prints a new link for whoever holds the API token', async () => {
      const answer = await fixture.ask('POST', '/api/login-links', { ...bearer, 'content-type': 'application/json' }, '{}');
      const { url } = JSON.parse(answer.body) as { readonly url: string };
      expect((await fixture.ask('GET', pathOf(url))).status).toBe(303);
    });

    it('takes a fixed token again and again, for automation', async () => {
      const fixed = await startControlFixture({ fixedToken: 'sesame' });
      try {
        for (const _ of [1, 2]) expect((await fixed.ask('GET', '/login?token=sesame')).status).toBe(303);
        expect((await fixed.ask('GET', '/api/operations', { authorization: 'Bearer sesame' })).status).toBe(200);
      } finally {
        await fixed.close();
      }
    });
  });

  describe('Host and Origin', () => {
    it.each(['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', 'evil.example:7080', '127.0.0.1@evil.example', 'localhost/', '10.0.0.1', '[::2]'])(
      'refuses Host "%s"',
      async (host) => {
        const answer = await fixture.ask('GET', '/api/health', { host });
        expect(answer.status).toBe(403);
      },
    );

    it('serves localhost, 127.0.0.1 and [::1], through a tunnel on any port', async () => {
      for (const host of [fixture.host, `localhost:${fixture.control.port}`, 'localhost:9000', '[::1]:9000', 'LOCALHOST:9000']) {
        expect((await fixture.ask('GET', '/api/health', { host })).status).toBe(200);
      }
    });

    it('refuses a state change from another origin, though the cookie is right', async () => {
      const cookie = await fixture.signIn();
      const json = { cookie, 'content-type': 'application/json' };
      const post = (origin: string | undefined) =>
        fixture.ask('POST', '/api/operations/state.get', { ...json, ...(origin !== undefined && { origin }) }, '{}');
      expect((await post(`http://${fixture.host}`)).status).toBe(200);
      const own = new URL(`http://${fixture.host}`);
      for (const origin of [
        'http://evil.example', 'null', `https://${fixture.host}`, `http://127.0.0.1:${Number(own.port) + 1}`, `http://localhost:${own.port}`,
        `http://${fixture.host}.evil.example`, `http://${fixture.host}/`, undefined,
      ]) {
        expect((await post(origin)).status).toBe(403);
      }
    });
  });

  describe('the page', () => {
    it('has a new nonce in each response, the same in the page and its policy', async () => {
      const cookie = await fixture.signIn();
      const [one, two] = await Promise.all([fixture.ask('GET', '/', { ...PAGE, cookie }), fixture.ask('GET', '/', { ...PAGE, cookie })]);
      const nonce = /nonce="([^"]+)"/u.exec(one.body)?.[1] ?? '';
      expect(nonce).toMatch(/^[\w+/]{24}$/u);
      expect(one.body).not.toContain('PDSCOPE_NONCE');
      expect(one.body.split(nonce).length - 1).toBe(2);
      expect(two.body).not.toContain(nonce);
      const policy = String(one.headers['content-security-policy']);
      expect(policy).toBe(
        `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data:; font-src 'self'; ` +
          `connect-src 'self' ws://${fixture.host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'`,
      );
    });

    it('comes with the headers that keep it to itself', async () => {
      const { headers } = await fixture.ask('GET', '/', { ...PAGE, cookie: await fixture.signIn() });
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cache-control': 'no-store',
      });
    });

    it('lets hashed files be kept for good and revalidates by etag', async () => {
      const cookie = await fixture.signIn();
      const first = await fixture.ask('GET', '/assets/index-abc.js', { cookie });
      expect(first).toMatchObject({ status: 200, body: ASSET_JS });
      expect(first.headers['cache-control']).toBe('public, max-age=31536000, immutable');
      expect(first.headers['content-type']).toMatch(/javascript/u);
      const again = await fixture.ask('GET', '/assets/index-abc.js', { cookie, 'if-none-match': String(first.headers['etag']) });
      expect(again).toMatchObject({ status: 304, body: '' });
    });

    it.each(['/.secret', '/../../../etc/passwd', '/%2e%2e/%2e%2e/etc/passwd', '/assets/..%2f..%2f..%2fetc%2fpasswd', '/nothing'])('serves nothing else: %s', async (path) => {
      const answer = await fixture.ask('GET', path, { cookie: await fixture.signIn(), ...PAGE });
      expect([400, 403, 404]).toContain(answer.status);
      expect(answer.body).not.toMatch(/root:|hidden/u);
    });

    it('says how to build the page when it is missing', async () => {
      const unbuilt = await startControlFixture({ rendererDir: '/nonexistent/renderer' });
      try {
        const answer = await unbuilt.ask('GET', '/', { ...PAGE, cookie: await unbuilt.signIn() });
        expect(answer.status).toBe(503);
        expect(answer.body).toContain('npm run build');
      } finally {
        await unbuilt.close();
      }
    });
  });

  describe('operations', () => {
    const run = (name: string, body: string, extra: Readonly<Record<string, string>> = {}) =>
      fixture.ask('POST', `/api/operations/${name}`, { ...bearer, 'content-type': 'application/json', ...extra }, body);

    it('lists them with the schema of their input', async () => {
      const { operations } = JSON.parse((await fixture.ask('GET', '/api/operations', bearer)).body) as { readonly operations: readonly { readonly name: string; readonly input: unknown }[] };
      expect(operations.find(({ name }) => name === 'policy.set')).toMatchObject({
        title: 'Set policy',
        kind: 'command',
        input: { type: 'object', required: ['policy'] },
      });
    });

    it('runs one and answers its value', async () => {
      const answer = await run('state.get', '{"a":1}');
      expect(answer.status).toBe(200);
      expect(JSON.parse(answer.body)).toEqual({ value: { name: 'state.get', input: { a: 1 } } });
    });

    it('tells expected failures in words, and keeps unexpected ones to the log', async () => {
      const bad = await run('policy.set', '{}');
      expect(bad.status).toBe(400);
      expect(JSON.parse(bad.body)).toEqual({ error: { code: 'bad_input', message: 'policy: no such policy', retryable: false } });
      const broken = await run('connector.set', '{}');
      expect(broken.status).toBe(500);
      expect(broken.body).not.toContain('42');
      expect((await run('no.such', '{}')).status).toBe(404);
      expect((await run('constructor', '{}')).status).toBe(404);
    });

    it('takes JSON only, of bounded size', async () => {
      expect((await run('state.get', '{}', { 'content-type': 'text/plain' })).status).toBe(415);
      expect((await run('state.get', '{')).status).toBe(400);
      expect((await run('state.get', JSON.stringify('x'.repeat(1024 * 1024 + 1)))).status).toBe(413);
    });
  });

  describe('session socket', () => {
    it('greets a signed-in page, and a program with the API token', async () => {
      const cookie = await fixture.signIn();
      const page = await openSocket(fixture, { cookie, origin: `http://${fixture.host}` });
      expect(page.hello).toMatchObject({ t: 'hello', protocol: 1, version: '1.2.3' });
      expect((await openSocket(fixture, bearer)).hello).toMatchObject({ t: 'hello' });
    });

    it('refuses the upgrade for a wrong Host, a wrong Origin, or none from a browser', async () => {
      const cookie = await fixture.signIn();
      expect(await openSocket(fixture, { cookie, origin: 'http://evil.example' })).toEqual({ refused: 403 });
      expect(await openSocket(fixture, { cookie, origin: 'null' })).toEqual({ refused: 403 });
      expect(await openSocket(fixture, { cookie })).toEqual({ refused: 403 });
      expect(await openSocket(fixture, { cookie, host: `evil.example:${fixture.control.port}`, origin: `http://evil.example:${fixture.control.port}` })).toEqual({ refused: 403 });
    });

    it('closes one that is not signed in with 4401, so that the page can say why', async () => {
      expect(await openSocket(fixture, { origin: `http://${fixture.host}` })).toEqual({ closeCode: 4401 });
      expect(await openSocket(fixture, { origin: `http://${fixture.host}`, cookie: `pdscope_session_${fixture.control.port}=forged` })).toEqual({ closeCode: 4401 });
    });

    it('carries calls both ways, and ends a peer that sends no JSON', async () => {
      const socket = new WebSocket(`ws://127.0.0.1:${fixture.control.port}/api/session`, { headers: bearer });
      const messages: HostMessage[] = [];
      const code = await new Promise<number>((resolve, reject) => {
        socket.on('error', reject);
        socket.on('close', resolve);
        socket.on('message', (data) => {
          messages.push(JSON.parse((data as Buffer).toString('utf8')) as HostMessage);
          if (messages.length === 1) socket.send(JSON.stringify({ t: 'call', id: 5, op: 'state.get', input: { x: 1 } }));
          else socket.send('{');
        });
      });
      expect(messages[1]).toEqual({ t: 'result', id: 5, ok: true, value: { name: 'state.get', input: { x: 1 } } });
      expect(code).toBe(1003);
    });
  });

  it('names a taken port and what to do', async () => {
    const blocker = createServer();
    const port = await new Promise<number>((resolve) => {
      blocker.listen(0, '127.0.0.1', () => resolve((blocker.address() as { readonly port: number }).port));
    });
    try {
      await expect(startControlFixture({ port })).rejects.toMatchObject({ code: 'port_in_use', message: expect.stringContaining('--control-port') });
    } finally {
      blocker.close();
    }
  });

  it('binds beyond loopback only when told so', async () => {
    await expect(startControlFixture({ host: '0.0.0.0' })).rejects.toMatchObject({ code: 'remote_control_refused' });
    const remote = await startControlFixture({ host: '0.0.0.0', allowRemote: true });
    try {
      expect((await remote.ask('GET', '/api/health', { host: '10.1.2.3:7080' })).status).toBe(200);
      expect((await remote.ask('GET', '/api/health', { host: 'evil.example:7080' })).status).toBe(403);
    } finally {
      await remote.close();
    }
  });
});
