/** `npm start` as a person uses it: a real process, a real page, a real Ctrl+C. Needs the built product, as npm test has it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../../../scripts/lib/paths.mjs';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';

interface Running extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly output: () => string;
  /** Waits for `pattern` in what was printed; answers its first group. */
  readonly waitFor: (pattern: RegExp) => Promise<string>;
  /** Sends a signal and waits for the end. */
  readonly stop: (signal: NodeJS.Signals) => Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): Running {
  const child = spawn(process.execPath, [join(ROOT, 'scripts/start.mjs'), ...args], {
    cwd: '/',
    // No display, whatever this machine has: these tests are about the headless way.
    env: { ...process.env, DISPLAY: '', WAYLAND_DISPLAY: '', PDSCOPE_TOKEN: 'a-token-for-this-test-0123456789', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString('utf8')));
  child.stderr.on('data', (chunk: Buffer) => (printed += chunk.toString('utf8')));
  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    child,
    output: () => printed,
    waitFor: async (pattern) => {
      const deadline = performance.now() + WAIT_LIMIT_MS;
      while (performance.now() < deadline) {
        const found = pattern.exec(printed);
        if (found !== null) return found[1] ?? found[0];
        if (isOver()) break;
        await new Promise((done) => setTimeout(done, 20));
      }
      throw new Error(`${pattern.source} was not printed:\n${printed}`);
    },
    stop: async (signal) => {
      const gone = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
      child.kill(signal);
      const [code, endSignal] = await gone;
      return { code, signal: endSignal };
    },
    [Symbol.asyncDispose]: async () => {
      if (isOver()) return;
      const gone = once(child, 'close');
      child.kill('SIGKILL');
      await gone;
    },
  };
}

function isListening(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      done(true);
    });
    socket.once('error', () => done(false));
  });
}

const FREE_PORTS = ['--port', '0', '--control-port', '0'];

describe('npm start', () => {
  it('serves the demo headless, says why, and ends with Ctrl+C', async () => {
    await using running = start(['serve', '--demo', ...FREE_PORTS]);
    const link = await running.waitFor(/(http:\/\/127\.0\.0\.1:\d+\/login\?token=\S+)/);
    expect(running.output()).toMatch(/^pdscope: headless, because /m);

    const login = await fetch(link, { redirect: 'manual' });
    expect(login.status).toBe(303);
    const page = await fetch(new URL('/', link), { headers: { cookie: (login.headers.get('set-cookie') ?? '').split(';')[0] ?? '' } });
    expect(page.status).toBe(200);
    expect(await page.text()).toContain('<div id="root">');

    // How long it may take is held by the clock of test/unit/headless/shutdown.test.ts, not by this machine's.
    expect((await running.stop('SIGINT')).code).toBe(0);
    expect(await isListening(Number(new URL(link).port))).toBe(false);
  });

  it('takes the Ctrl+C of a terminal and the copy that npm passes on for one', async () => {
    await using running = start(['--demo', ...FREE_PORTS, '--headless']);
    await running.waitFor(/\/login\?token=/);
    running.child.kill('SIGINT');
    const { code } = await running.stop('SIGINT');
    expect(code).toBe(0);
  });

  it('ends cleanly on SIGTERM too', async () => {
    await using running = start(['--demo', ...FREE_PORTS]);
    await running.waitFor(/\/login\?token=/);
    expect((await running.stop('SIGTERM')).code).toBe(0);
  });

  it('passes instances through to serve', async () => {
    await using running = start(['serve', '--prefill', '127.0.0.1:9', '--decode', '127.0.0.1:10', ...FREE_PORTS]);
    const counts = await running.waitFor(/pdscope \S+: (.*)/);
    expect(counts).toBe('1 prefill, 1 decode');
    await running.stop('SIGINT');
  });

  it('sends help and wrong usage to the terminal, with their exit codes', async () => {
    await using help = start(['--help']);
    const [helpCode] = (await once(help.child, 'close')) as [number];
    expect(helpCode).toBe(0);
    expect(help.output()).toContain('pdscope serve --demo');
    expect(help.output()).not.toContain('headless, because');

    await using wrong = start(['serve', '--port', '70000']);
    const [wrongCode] = (await once(wrong.child, 'close')) as [number];
    expect(wrongCode).toBe(2);
  });

  it('says that a port is taken', async () => {
    await using first = start(['--demo', ...FREE_PORTS]);
    const port = new URL(await first.waitFor(/(http:\S+\/login\?\S+)/)).port;
    await using second = start(['--demo', '--port', '0', '--control-port', port]);
    const [code] = (await once(second.child, 'close')) as [number];
    expect(code).toBe(3);
    expect(second.output()).toContain(port);
  });
});
