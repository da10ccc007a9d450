/** The built command in a process of its own, ended with the block that started it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../../..');
const START_DEADLINE_MS = 120_000;
const STOP_DEADLINE_MS = 30_000;

export interface RunningCommand extends AsyncDisposable {
  /** First group of the pattern that was waited for. */
  readonly printed: string;
}

/** Starts `pdscope <args>` and waits until it printed `pattern`. Rejects with what it printed when it does not come up. */
export async function startCommand(args: readonly string[], pattern: RegExp, env: NodeJS.ProcessEnv = {}): Promise<RunningCommand> {
  const child = spawn(process.execPath, [join(ROOT, 'out/headless/cli.js'), ...args], {
    cwd: ROOT,
    env: { ...process.env, ADMIN_API_KEY: '', OPENAI_API_KEY: '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  try {
    return { printed: await waitForPrint(child, pattern), [Symbol.asyncDispose]: () => stop(child) };
  } catch (error) {
    await stop(child);
    throw error;
  }
}

function waitForPrint(child: ChildProcess, pattern: RegExp): Promise<string> {
  return new Promise((done, fail) => {
    let printed = '';
    const timer = setTimeout(() => fail(new Error(`not up within ${START_DEADLINE_MS} ms; it printed:\n${printed}`)), START_DEADLINE_MS);
    const read = (chunk: Buffer): void => {
      printed += chunk.toString('utf8');
      const found = pattern.exec(printed);
      if (found === null) return;
      clearTimeout(timer);
      done(found[1] ?? found[0]);
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.once('exit', (code) => {
      clearTimeout(timer);
      fail(new Error(`it ended with ${code}; it printed:\n${printed}`));
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
