/** A Chromium for the browser tests: one that is here, else Playwright's, else Debian's when we may install it. */
import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { ROOT } from './paths.mjs';
import { run } from './run.mjs';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'microsoft-edge'];
const MAC_APPS = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

/**
 * An installed browser, without starting it: `CHROMIUM_PATH`, the search path, the usual place of a Mac.
 * @param {{ env?: Record<string, string | undefined>, platform?: string }} [options]
 * @returns {string | undefined}
 */
export function findChromium(options = {}) {
  const { env = process.env, platform = process.platform } = options;
  if (env.CHROMIUM_PATH) return isExecutable(env.CHROMIUM_PATH) ? env.CHROMIUM_PATH : undefined;
  const directories = (env.PATH ?? '').split(delimiter).filter((directory) => directory !== '');
  const candidates = directories.flatMap((directory) => NAMES.map((name) => join(directory, name)));
  if (platform === 'darwin') candidates.push(...MAC_APPS);
  // Names before directories: a system Chromium is preferred to a Chrome wherever either is.
  candidates.sort((a, b) => rank(a) - rank(b));
  return candidates.find(isExecutable);
}

/** The browser that `playwright install` put in its cache, if it did. Needs node_modules. */
export async function findPlaywrightChromium() {
  const { chromium } = await import('playwright-core');
  const path = chromium.executablePath();
  return existsSync(path) ? path : undefined;
}

/**
 * A browser that runs, installed if need be. Says what it does in one line each.
 * @returns {Promise<string | undefined>} undefined when none can be had; the reason has been printed.
 */
export async function ensureChromium() {
  const here = findChromium() ?? (await findPlaywrightChromium());
  if (here !== undefined && (await doesRun(here))) return here;
  if (process.env.CHROMIUM_PATH) {
    console.error(`pdscope: CHROMIUM_PATH (${process.env.CHROMIUM_PATH}) is not a browser that runs`);
    return undefined;
  }

  console.log('pdscope: no Chromium found; installing Playwright\'s');
  const playwright = await run(process.execPath, [join(ROOT, 'node_modules', 'playwright', 'cli.js'), 'install', 'chromium'], {
    isQuiet: true,
    // Where its download host cannot be reached, waiting longer does not help.
    env: { PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT: '10000' },
  });
  const downloaded = playwright.code === 0 ? await findPlaywrightChromium() : undefined;
  if (downloaded !== undefined && (await doesRun(downloaded))) return downloaded;

  if (process.getuid?.() === 0 && existsSync('/etc/debian_version')) {
    console.log('pdscope: installing Debian\'s Chromium');
    const env = { DEBIAN_FRONTEND: 'noninteractive' };
    await run('apt-get', ['update'], { isQuiet: true, env });
    const apt = await run('apt-get', ['install', '-y', '--no-install-recommends', 'chromium'], { isQuiet: true, env });
    if (apt.code !== 0) process.stderr.write(apt.output);
    const installed = findChromium();
    if (installed !== undefined && (await doesRun(installed))) return installed;
  }
  process.stderr.write(playwright.output);
  console.error('pdscope: no Chromium could be had; set CHROMIUM_PATH to one');
  return undefined;
}

/** `--version` fails where a shared library is missing, as on a slim system with a downloaded browser. */
async function doesRun(path) {
  return (await run(path, ['--version', '--no-sandbox'], { isQuiet: true })).code === 0;
}

/** @param {string} path */
function rank(path) {
  const index = NAMES.findIndex((name) => path.endsWith(`/${name}`) || path.endsWith(`\\${name}`));
  return index === -1 ? NAMES.length : index;
}

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
