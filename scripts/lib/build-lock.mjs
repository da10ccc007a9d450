/** One build at a time per tree: two starts at once must not empty each other's output folder. */
import { mkdirSync, openSync, closeSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { OUT } from './paths.mjs';

const POLL_MS = 100;

/**
 * Runs `work` while no other process builds into `out`. A lock whose process is gone is taken over.
 * @template T
 * @param {() => Promise<T>} work
 * @param {string} [out]
 * @returns {Promise<T>}
 */
export async function withBuildLock(work, out = OUT) {
  mkdirSync(out, { recursive: true });
  const path = join(out, '.build-lock');
  while (!tryLock(path)) await sleep(POLL_MS);
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

/** @param {string} path */
function tryLock(path) {
  try {
    const file = openSync(path, 'wx');
    writeSync(file, String(process.pid));
    closeSync(file);
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
  }
  if (!isHeld(path)) rmSync(path, { force: true });
  return false;
}

/** @param {string} path */
function isHeld(path) {
  let pid;
  try {
    pid = Number(readFileSync(path, 'utf8'));
  } catch {
    return false;
  }
  // Created but not written yet: its owner is at work this very moment.
  if (pid === 0) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}
