/** A headless pdscope as a person starts it: the built command in a process of its own, demo cluster, free ports. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../../..');
const START_DEADLINE_MS = 30_000;
const STOP_DEADLINE_MS = 5000;

export interface HeadlessHost extends AsyncDisposable {
  /** Signs a browser in; with a fixed token it can be used by every test. */
  readonly loginUrl: string;
  /** Origin of the control port. */
  readonly url: string;
  /** Runs an operation over HTTP, as a program would; for arranging what a test looks at. */
  call(operation: string, input: object): Promise<unknown>;
}

/** Starts the host with `args` after `serve`. Rejects with what it printed when it does not come up. */
export async function startHeadlessHost(args: readonly string[] = ['--demo']): Promise<HeadlessHost> {
  const token = randomBytes(24).toString('base64url');
  const child = spawn(
    process.execPath,
    [join(ROOT, 'out/headless/cli.js'), 'serve', ...args, '--port', '0', '--control-port', '0'],
    { cwd: ROOT, env: { ...process.env, PDSCOPE_TOKEN: token, ADMIN_API_KEY: '', OPENAI_API_KEY: '' }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  try {
    const loginUrl = await printedUrl(child);
    const { origin } = new URL(loginUrl);
    return {
      loginUrl,
      url: origin,
      call: async (operation, input) => {
        const response = await fetch(`${origin}/api/operations/${operation}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: JSON.stringify(input),
        });
        const body: unknown = await response.json();
        if (!response.ok) throw new Error(`${operation} answered ${response.status}: ${JSON.stringify(body)}`);
        return body;
      },
      [Symbol.asyncDispose]: () => stop(child),
    };
  } catch (error) {
    await stop(child);
    throw error;
  }
}

/** The login link that the host prints once it listens. */
function printedUrl(child: ChildProcess): Promise<string> {
  return new Promise((done, fail) => {
    let printed = '';
    const timer = setTimeout(() => fail(new Error(`no link within ${START_DEADLINE_MS} ms; it printed:\n${printed}`)), START_DEADLINE_MS);
    const read = (chunk: Buffer): void => {
      printed += chunk.toString('utf8');
      const link = /http:\/\/\S+\/login\?token=\S+/.exec(printed)?.[0];
      if (link === undefined) return;
      clearTimeout(timer);
      done(link);
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.once('exit', (code) => {
      clearTimeout(timer);
      fail(new Error(`the host ended with ${code}; it printed:\n${printed}`));
    });
  });
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const deadline = setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS);
  await gone;
  clearTimeout(deadline);
}
