import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { ROOT } from './paths.mjs';

/**
 * The script behind a package's command, to be run with this Node; npx would cost a second each time.
 * @param {string} packageName
 * @param {string} command
 */
export function packageBin(packageName, command) {
  const manifest = createRequire(join(ROOT, 'package.json')).resolve(`${packageName}/package.json`);
  const { bin } = JSON.parse(readFileSync(manifest, 'utf8'));
  return join(dirname(manifest), typeof bin === 'string' ? bin : bin[command]);
}
