/** The built command line as real processes: what they print, and how they end. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'vite';
import { waitFor } from '../engine/wait-for.ts';

const ROOT = join(import.meta.dirname, '..', '..', '..');

export interface CliProcess {
  readonly child: ChildProcess;
  out(): string;
  err(): string;
  /** Waits until stdout or stderr matches, and answers the match. Fails when the process ends before. */
  sees(pattern: RegExp): Promise<RegExpExecArray>;
  /** The exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals | null>;
}

export interface Cli {
  run(args: readonly string[], env?: Readonly<Record<string, string>>): CliProcess;
  /** Runs to the end. */
  finish(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<{ readonly code: number | NodeJS.Signals | null; readonly out: string; readonly err: string }>;
  close(): Promise<void>;
}

/** Builds the command line beside the real output, so that no test runs a stale one. */
export async function buildCli(): Promise<Cli> {
  const outDir = join(ROOT, 'out', `test-cli-${process.pid}`);
  await build({ configFile: join(ROOT, 'vite.headless.config.ts'), logLevel: 'error', build: { outDir: join(outDir, 'headless'), sourcemap: false } });
  const runtimeDir = await mkdtemp(join(tmpdir(), 'pdscope-cli-'));
  const children = new Set<ChildProcess>();

  const run: Cli['run'] = (args, env = {}) => {
    const { ADMIN_API_KEY: _admin, OPENAI_API_KEY: _openai, PDSCOPE_TOKEN: _token, ...inherited } = process.env;
    const child = spawn(process.execPath, [join(outDir, 'headless', 'cli.js'), ...args], {
      env: { ...inherited, XDG_RUNTIME_DIR: runtimeDir, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.add(child);
    let out = '';
    let err = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
    const ended = new Promise<number | NodeJS.Signals | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code, signal) => {
        children.delete(child);
        resolve(code ?? signal);
      });
    });
    return {
      child,
      out: () => out,
      err: () => err,
      ended,
      sees: (pattern) =>
        waitFor(`${args.join(' ')} prints ${pattern}`, () => {
          const found = pattern.exec(out) ?? pattern.exec(err);
          if (found === null && child.exitCode !== null) throw new Error(`${args.join(' ')} ended with ${child.exitCode}: ${out}${err}`);
          return found ?? undefined;
        }),
    };
  };

  return {
    run,
    async finish(args, env) {
      const started = run(args, env);
      const code = await started.ended;
      return { code, out: started.out(), err: started.err() };
    },
    async close() {
      for (const child of children) child.kill('SIGKILL');
      await Promise.all([rm(outDir, { recursive: true, force: true }), rm(runtimeDir, { recursive: true, force: true })]);
    },
  };
}
