import { spawn } from 'node:child_process';
import { ROOT } from './paths.mjs';

/** How long the old one may take to end, ms. */
const STOP_DEADLINE_MS = 2000;

/** A Node process that is replaced on request, one at a time: the next starts when the one before has given its ports back. */
export class RestartingProcess {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #queue = Promise.resolve();
  #args;
  #env;

  /**
   * @param {readonly string[]} args Arguments of node.
   * @param {Record<string, string>} env Added to this process's environment.
   */
  constructor(args, env) {
    this.#args = args;
    this.#env = { ...process.env, ...env };
  }

  restart() {
    this.#queue = this.#queue.then(() => this.#replace());
  }

  /** Ends it for good. */
  stop() {
    this.#queue = this.#queue.then(() => this.#end());
    return this.#queue;
  }

  async #replace() {
    await this.#end();
    // Its stdout would name its own address; the page is at the dev server's.
    this.#child = spawn(process.execPath, this.#args, { cwd: ROOT, env: this.#env, stdio: ['ignore', 'ignore', 'inherit'] });
  }

  #end() {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
    return new Promise((done) => {
      const deadline = setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS);
      child.once('exit', () => {
        clearTimeout(deadline);
        done(undefined);
      });
      child.kill('SIGTERM');
    });
  }
}
