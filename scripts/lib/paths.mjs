/** Where things are, for every script. Paths are absolute; the working directory never matters. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '..', '..');
export const OUT = join(ROOT, 'out');
export const CLI = join(OUT, 'headless', 'cli.js');
export const REPORTS = join(ROOT, 'test-results');

/** package.json as an object. */
export function readPackage() {
  return JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
}
