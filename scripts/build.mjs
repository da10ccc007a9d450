#!/usr/bin/env node
/** `npm run build`: main, preload and renderer by electron-vite, the headless command line by vite, all under out/. */
import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build as buildDesktop } from 'electron-vite';
import { build } from 'vite';
import { withBuildLock } from './lib/build-lock.mjs';
import { compressAssets } from './lib/compress.mjs';
import { CLI, OUT, ROOT } from './lib/paths.mjs';
import { takeStamp, writeStamp } from './lib/stamp.mjs';

// electron-vite reads package.json and its config from the working directory.
process.chdir(ROOT);
const logLevel = process.argv.includes('--verbose') ? 'info' : 'warn';
const startedAt = performance.now();

try {
  await withBuildLock(buildAll);
} catch (error) {
  // The bundler's message names file and line; the stack would only name the bundler.
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
console.log(`pdscope: built in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);

async function buildAll() {
  const stamp = takeStamp();
  // A build that fails half-way must not leave the stamp of the one before.
  rmSync(join(OUT, 'build-stamp.json'), { force: true });
  await buildDesktop({ logLevel });
  await build({ configFile: join(ROOT, 'vite.headless.config.ts'), logLevel });
  await compressAssets(join(OUT, 'renderer', 'assets'));
  chmodSync(CLI, 0o755);
  writeStamp(stamp);
}
