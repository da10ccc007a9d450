/** A control server over a fake engine and a built page of two files; requests with any header, as an attacker's would. */
import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WebSocket } from 'ws';
import type { Engine } from '#engine/engine.ts';
import type { HostMessage } from '#shared/wire.ts';
import { startControlServer, type ControlServer, type ControlServerOptions } from '../../../electron/headless/control-server.ts';
import { fakeEngine, type FakeEngine } from '../../unit/engine/session/fake-engine.ts';

export const INDEX_HTML = '<!doctype html><meta property="csp-nonce" nonce="PDSCOPE_NONCE"><script type="module" src="./assets/index-abc.js" nonce="PDSCOPE_NONCE"></script>';
export const ASSET_JS = 'globalThis.loaded = true;\n';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export interface ControlFixture {
  readonly control: ControlServer;
  readonly engine: FakeEngine;
  /** Host header of the page itself. */
  readonly host: string;
  ask(method: string, path: string, headers?: Readonly<Record<string, string>>, body?: string): Promise<Answer>;
  /** Signs in with a fresh link. Answers the `Cookie` header. */
  signIn(): Promise<string>;
  close(): Promise<void>;
}

export async function startControlFixture(options: Partial<ControlServerOptions> = {}): Promise<ControlFixture> {
  const rendererDir = await mkdtemp(join(tmpdir(), 'pdscope-page-'));
  await mkdir(join(rendererDir, 'assets'));
  await writeFile(join(rendererDir, 'index.html'), INDEX_HTML);
  await writeFile(join(rendererDir, 'assets', 'index-abc.js'), ASSET_JS);
  await writeFile(join(rendererDir, '.secret'), 'hidden');
  const engine = fakeEngine();
  const control = await startControlServer({ engine: engine as unknown as Engine, rendererDir, version: '1.2.3', port: 0, ...options });
  const host = `127.0.0.1:${control.port}`;
  const ask: ControlFixture['ask'] = (method, path, headers = {}, body) =>
    new Promise((resolve, reject) => {
      const req = request({ host: '127.0.0.1', port: control.port, method, path, headers: { host, ...headers }, agent: false }, (res) => {
        let text = '';
        res.setEncoding('utf8');
        res.on('data', (chunk: string) => (text += chunk));
        res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body: text }));
      });
      req.on('error', reject);
      req.end(body);
    });
  return {
    control,
    engine,
    host,
    ask,
    async signIn() {
      const { headers } = await ask('GET', pathOf(control.issueLoginUrl()));
      return cookieOf(headers);
    },
    async close() {
      await control.close();
      await rm(rendererDir, { recursive: true });
    },
  };
}

export function pathOf(url: string): string {
  const { pathname, search } = new URL(url);
  return pathname + search;
}

/** The cookie of a `Set-Cookie` header, as a browser would send it back. */
export function cookieOf(headers: Answer['headers']): string {
  const [cookie] = headers['set-cookie'] ?? [];
  return cookie?.split(';')[0] ?? '';
}

export interface SocketOutcome {
  /** HTTP status of a refused upgrade. */
  readonly refused?: number;
  readonly closeCode?: number;
  /** First message. */
  readonly hello?: HostMessage;
}

/** Opens a session socket and answers the first thing that happens. */
export function openSocket(fixture: ControlFixture, headers: Readonly<Record<string, string>>): Promise<SocketOutcome> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${fixture.control.port}/api/session`, { headers });
    socket.on('unexpected-response', (_request, response) => {
      response.resume();
      resolve({ refused: response.statusCode ?? 0 });
    });
    socket.on('message', (data) => {
      resolve({ hello: JSON.parse((data as Buffer).toString('utf8')) as HostMessage });
      socket.close();
    });
    socket.on('close', (closeCode) => resolve({ closeCode }));
    socket.on('error', reject);
  });
}
