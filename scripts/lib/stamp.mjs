/**
 * Whether `out/` was built from the sources that are here now. The stamp holds size, mtime and hash of every input:
 * equal sizes and mtimes settle it with a stat walk, and a file whose mtime alone moved is compared by content.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { OUT, ROOT } from './paths.mjs';

const INPUTS = [
  'electron',
  'renderer',
  'shared',
  'electron.vite.config.ts',
  'vite.headless.config.ts',
  'vite.renderer.config.ts',
  'package.json',
  'package-lock.json',
];
const STAMP = 'build-stamp.json';
/** What a finished build must have left behind. */
const OUTPUTS = ['headless/cli.js', 'main/index.js', 'preload/index.cjs', 'renderer/index.html'];

/** @typedef {{ size: number, mtimeMs: number, hash: string }} FileStamp */

/**
 * Why a build is needed; undefined when it is not.
 * @param {string} [root]
 * @param {string} [out]
 * @returns {string | undefined}
 */
export function buildReason(root = ROOT, out = OUT) {
  const stampPath = join(out, STAMP);
  if (!existsSync(stampPath)) return 'not built yet';
  for (const output of OUTPUTS) if (!existsSync(join(out, output))) return `${output} is missing`;
  /** @type {Record<string, FileStamp>} */
  let before;
  try {
    before = JSON.parse(readFileSync(stampPath, 'utf8'));
  } catch {
    return 'the build stamp is unreadable';
  }
  const files = inputFiles(root);
  const names = new Set(files.map((file) => file.name));
  for (const name of Object.keys(before)) if (!names.has(name)) return `${name} was removed`;
  for (const { name, size, mtimeMs } of files) {
    const old = before[name];
    if (old === undefined) return `${name} is new`;
    if (old.size === size && old.mtimeMs === mtimeMs) continue;
    if (old.size !== size || old.hash !== hashOf(join(root, name))) return `${name} changed`;
  }
  return undefined;
}

/** The stamp of the inputs as they are now. Take it BEFORE building: an edit during the build must make it stale. */
export function takeStamp(root = ROOT) {
  /** @type {Record<string, FileStamp>} */
  const stamp = {};
  for (const { name, size, mtimeMs } of inputFiles(root)) stamp[name] = { size, mtimeMs, hash: hashOf(join(root, name)) };
  return stamp;
}

/** @param {Record<string, FileStamp>} stamp */
export function writeStamp(stamp, out = OUT) {
  mkdirSync(out, { recursive: true });
  writeFileSync(join(out, STAMP), JSON.stringify(stamp));
}

/** @returns {{ name: string, size: number, mtimeMs: number }[]} */
function inputFiles(root) {
  /** @type {{ name: string, size: number, mtimeMs: number }[]} */
  const files = [];
  /** @param {string} path */
  const visit = (path) => {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined) return;
    if (stat.isDirectory()) for (const entry of readdirSync(path)) visit(join(path, entry));
    else files.push({ name: relative(root, path), size: stat.size, mtimeMs: stat.mtimeMs });
  };
  for (const input of INPUTS) visit(join(root, input));
  return files;
}

/** @param {string} path */
function hashOf(path) {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}
