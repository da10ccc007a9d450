#!/usr/bin/env node
/**
 * `npm start`: installs what is missing, builds what is stale, and starts pdscope: in Electron where its binary and a
 * display are there, else headless. The headless host runs in this very process, so that there is no second Node to
 * start, to signal or to leave behind.
 */
import { spawn } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { ensureNode } from './lib/check-node.mjs';
import { findElectron } from './lib/electron.mjs';
import { ensureBuilt } from './lib/ensure-built.mjs';
import { ensureInstalled } from './lib/install.mjs';
import { CLI, ROOT } from './lib/paths.mjs';
import { exitCode, passSignalsTo } from './lib/run.mjs';
import { planStart } from './lib/start-plan.mjs';

/** An Electron that fails within this time never showed a window (missing system library, no GPU, no sandbox). */
const EARLY_FAILURE_MS = 10_000;

ensureNode();
await ensureInstalled();
await ensureBuilt();

const plan = planStart(process.argv.slice(2));
if (!plan.wantsWindow) {
  await startHeadless();
} else {
  const electron = findElectron();
  const reason = electron.path === undefined ? electron.reason : await startElectron(electron.path);
  if (reason !== undefined) {
    console.log(`pdscope: headless, because ${reason}`);
    await startHeadless();
  }
}

async function startHeadless() {
  process.argv = [process.execPath, CLI, ...plan.args];
  await import(pathToFileURL(CLI).href);
}

/**
 * Ends this process with Electron's exit code, or answers why Electron did not come up.
 * @param {string} path
 * @returns {Promise<string | undefined>}
 */
async function startElectron(path) {
  const startedAt = performance.now();
  const env = { ...process.env };
  delete env.ELECTRON_RUN_AS_NODE;
  // After `--`, Chromium takes no switch of its own from pdscope's arguments.
  const child = spawn(path, [ROOT, '--', ...plan.args], { stdio: 'inherit', env });
  const release = passSignalsTo(child);
  let wasAsked = false;
  const noteSignal = () => {
    wasAsked = true;
  };
  process.once('SIGINT', noteSignal);
  process.once('SIGTERM', noteSignal);
  /** @type {{ code: number, problem?: string }} */
  const end = await new Promise((done) => {
    child.once('error', (error) => done({ code: 127, problem: `Electron could not be started (${error.message})` }));
    child.once('close', (code, signal) => done({ code: exitCode(code, signal) }));
  });
  release();
  const isEarly = performance.now() - startedAt < EARLY_FAILURE_MS;
  if (end.code !== 0 && isEarly && !wasAsked) {
    process.off('SIGINT', noteSignal);
    process.off('SIGTERM', noteSignal);
    return end.problem ?? `Electron ended at once with exit code ${end.code}`;
  }
  // Ctrl+C is how one stops it: a clean end after it is a success.
  return process.exit(wasAsked && end.code > 128 ? 0 : end.code);
}
