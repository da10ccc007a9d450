/**
 * Child processes of the scripts. A child started here never outlives the script: SIGINT and SIGTERM are passed on
 * once, and whoever does not end in time is killed.
 */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { ROOT } from './paths.mjs';

/** How long a child may take to end after a signal, ms. */
const STOP_DEADLINE_MS = 2500;

/**
 * Runs a command to its end.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ env?: Record<string, string | undefined>, isQuiet?: boolean, cwd?: string }} [options]
 *   `isQuiet`: output is collected instead of shown. Default false.
 * @returns {Promise<{ code: number, output: string }>} `code` is 128 + signal number for a child ended by a signal,
 *   127 when it could not be started.
 */
export function run(command, args, options = {}) {
  const { isQuiet = false, cwd = ROOT } = options;
  return new Promise((done) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', isQuiet ? 'pipe' : 'inherit', isQuiet ? 'pipe' : 'inherit'],
    });
    const release = passSignalsTo(child);
    /** @type {Buffer[]} */
    const chunks = [];
    child.stdout?.on('data', (chunk) => chunks.push(chunk));
    child.stderr?.on('data', (chunk) => chunks.push(chunk));
    child.once('error', (error) => {
      release();
      done({ code: 127, output: `${command}: ${error.message}\n` });
    });
    child.once('close', (code, signal) => {
      release();
      done({ code: exitCode(code, signal), output: Buffer.concat(chunks).toString('utf8') });
    });
  });
}

/** Runs npm itself, the same one that started us where there is one. */
export function runNpm(args, options = {}) {
  const npm = process.env.npm_execpath;
  if (npm !== undefined && /npm-cli\.c?js$/.test(npm)) return run(process.execPath, [npm, ...args], options);
  return run(process.platform === 'win32' ? 'npm.cmd' : 'npm', args, options);
}

/**
 * Passes SIGINT and SIGTERM on to a child until the returned function is called. In a terminal the child has already
 * had the SIGINT of its group, so children must take a second one for the same wish.
 * @param {import('node:child_process').ChildProcess} child
 * @returns {() => void}
 */
export function passSignalsTo(child) {
  /** @type {NodeJS.Timeout | undefined} */
  let deadline;
  /** @param {NodeJS.Signals} signal */
  const pass = (signal) => {
    if (deadline !== undefined) return;
    child.kill(signal);
    deadline = setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS);
  };
  process.on('SIGINT', pass);
  process.on('SIGTERM', pass);
  return () => {
    clearTimeout(deadline);
    process.off('SIGINT', pass);
    process.off('SIGTERM', pass);
  };
}

/** The shell's exit code for how a child ended. */
export function exitCode(code, signal) {
  if (code !== null) return code;
  return 128 + (constants.signals[signal] ?? 0);
}
