/**
 * Whether Electron can start here, found out without importing it: `require('electron')` from Node would block in a
 * download of its binary. The order of lookups is the one of electron's own index.js.
 */
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createRequire } from 'node:module';
import { ROOT } from './paths.mjs';

/**
 * @typedef {{ path: string, reason?: undefined } | { path?: undefined, reason: string }} ElectronAnswer
 *   The executable, or why there is none in words that finish the sentence "headless because ...".
 */

/**
 * The Electron executable, whether or not a display is there.
 * @param {{ env?: Record<string, string | undefined>, packageDir?: string }} [options]
 * @returns {ElectronAnswer}
 */
export function findElectronBinary(options = {}) {
  const { env = process.env } = options;
  let packageDir;
  try {
    packageDir = options.packageDir ?? dirname(createRequire(join(ROOT, 'package.json')).resolve('electron/package.json'));
  } catch {
    return { reason: 'Electron is not installed' };
  }
  const pathFile = join(packageDir, 'path.txt');
  const name = existsSync(pathFile) ? readFileSync(pathFile, 'utf8').trim() : undefined;
  const override = env.ELECTRON_OVERRIDE_DIST_PATH;
  if (name === undefined && !override) return { reason: 'the Electron binary is not on this machine' };
  const path = override ? join(override, name ?? 'electron') : join(packageDir, 'dist', name ?? '');
  try {
    accessSync(path, constants.X_OK);
  } catch {
    return { reason: 'the Electron binary is not on this machine' };
  }
  return { path };
}

/**
 * The Electron executable if a window can open with it.
 * @param {{ env?: Record<string, string | undefined>, packageDir?: string, platform?: string, uid?: number }} [options]
 * @returns {ElectronAnswer}
 */
export function findElectron(options = {}) {
  const { env = process.env, platform = process.platform, uid = process.getuid?.() } = options;
  const binary = findElectronBinary(options);
  if (binary.path === undefined) return binary;
  if (platform === 'linux') {
    if (!env.DISPLAY && !env.WAYLAND_DISPLAY) return { reason: 'there is no display (DISPLAY and WAYLAND_DISPLAY are not set)' };
    // Chromium's sandbox refuses root, and pdscope does not run without the sandbox.
    if (uid === 0) return { reason: 'Electron does not run as root with its sandbox on' };
  }
  return binary;
}
