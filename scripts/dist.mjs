#!/usr/bin/env node
/**
 * `npm run dist`: builds and packages the desktop app into release/. Arguments go to electron-builder
 * (`npm run dist -- --dir`, `-- --mac`).
 */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createRequire } from 'node:module';
import { ensureNode } from './lib/check-node.mjs';
import { ensureBuilt } from './lib/ensure-built.mjs';
import { ensureInstalled } from './lib/install.mjs';
import { packageBin } from './lib/package-bin.mjs';
import { ROOT } from './lib/paths.mjs';
import { run } from './lib/run.mjs';

/** What electron-builder prints when the Electron archive is neither in its cache nor to be downloaded. */
const NO_ELECTRON = /electron-v[\d.]+-|github\.com\/electron|cannot (?:download|resolve) .*electron|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|getaddrinfo/i;

ensureNode();
await ensureInstalled();
await ensureBuilt();

// An Electron that is unpacked here spares the download, for this platform's packages only.
const unpacked = join(dirname(createRequire(join(ROOT, 'package.json')).resolve('electron/package.json')), 'dist');
const given = process.argv.slice(2);
const isForeign = given.some((arg) => ['--mac', '-m', '--win', '-w', '--linux', '-l'].includes(arg));
const fromHere = existsSync(unpacked) && !isForeign ? [`-c.electronDist=${unpacked}`] : [];

const { code, output } = await run(
  process.execPath,
  [packageBin('electron-builder', 'electron-builder'), '--config', join(ROOT, 'electron-builder.yml'), '--publish', 'never', ...fromHere, ...given],
  { isQuiet: true },
);
process.stdout.write(output);
if (code !== 0 && NO_ELECTRON.test(output)) {
  console.error(
    'pdscope: the Electron binary cannot be had: it is not in this machine\'s cache and its download failed.\n' +
      'Run this where github.com can be reached, set ELECTRON_MIRROR, or pass -c.electronDist=<folder with an unpacked Electron>.',
  );
}
process.exit(code);
