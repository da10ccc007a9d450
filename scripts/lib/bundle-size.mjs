/** What a browser must load before the page can run: the entry and everything it imports statically, as gzip. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** Bytes. */
export const INITIAL_JS_LIMIT = 350 * 1024;

/**
 * @param {string} rendererDir Built renderer with vite's manifest.
 * @returns {{ file: string, gzipBytes: number }[]} Largest first.
 */
export function initialScripts(rendererDir) {
  const manifest = JSON.parse(readFileSync(join(rendererDir, '.vite', 'manifest.json'), 'utf8'));
  const entries = Object.keys(manifest).filter((key) => manifest[key].isEntry);
  if (entries.length === 0) throw new Error(`no entry in the manifest of ${rendererDir}`);
  const keys = new Set();
  /** @param {string} key */
  const visit = (key) => {
    if (keys.has(key)) return;
    keys.add(key);
    for (const imported of manifest[key].imports ?? []) visit(imported);
  };
  for (const entry of entries) visit(entry);
  const files = new Set([...keys].map((key) => manifest[key].file));
  return [...files]
    .filter((file) => file.endsWith('.js'))
    .map((file) => ({ file, gzipBytes: gzipSync(readFileSync(join(rendererDir, file))).length }))
    .sort((a, b) => b.gzipBytes - a.gzipBytes);
}
