/** The built command line as a person starts it, for what needs the control port and the page. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { operationCaller, type OperationCaller } from '../e2e/support/operation-caller.ts';

const START_DEADLINE_MS = 30_000;
const ADDRESS = /(http:\/\/\S+\/login\?token=\S+)/;

export interface Headless extends AsyncDisposable {
  /** Signs a browser in. */
  readonly loginUrl: string;
  readonly call: OperationCaller;
}

/** Starts `pdscope serve` on free ports with `args`. Rejects when it does not come up within 30 s. */
export async function startHeadless(args: readonly string[]): Promise<Headless> {
  const token = randomBytes(24).toString('base64url');
  const cli = fileURLToPath(new URL('../headless/cli.js', import.meta.url));
  const child = spawn(process.execPath, ['--max-old-space-size=1024', '--initial-old-space-size=256', '--no-memory-reducer', cli, 'serve', ...args, '--port', '0', '--control-port', '0', '--no-open'], {
    env: { ...process.env, PDSCOPE_TOKEN: token },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const loginUrl = await new Promise<string>((resolve, reject) => {
    let printed = '';
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`pdscope was not up within ${START_DEADLINE_MS} ms; it printed: ${printed}`));
    }, START_DEADLINE_MS);
    child.once('exit', (code) => {
      clearTimeout(timer);
      reject(new Error(`pdscope ended with ${code}; it printed: ${printed}`));
    });
    child.stdout.on('data', (chunk: Buffer) => {
      printed += chunk.toString('utf8');
      const found = ADDRESS.exec(printed)?.[1];
      if (found === undefined) return;
      clearTimeout(timer);
      resolve(found);
    });
  });
  const { origin } = new URL(loginUrl);
  return {
    loginUrl,
    call: operationCaller(origin, token),
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
    },
  };
}
