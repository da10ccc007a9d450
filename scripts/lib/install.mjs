/**
 * Whether node_modules is what the lockfile says, and making it so. The check compares npm's own record of what it
 * installed with the lockfile, package by package, so that neither a fresh clone nor a touched file is misread.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './paths.mjs';
import { runNpm } from './run.mjs';

/**
 * Why an install is needed; undefined when it is not.
 * @param {string} [root]
 * @returns {string | undefined}
 */
export function installReason(root = ROOT) {
  const installedPath = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(installedPath)) return 'node_modules is missing';
  const locked = readPackages(join(root, 'package-lock.json'));
  const installed = readPackages(installedPath);
  for (const [path, entry] of Object.entries(locked)) {
    if (path === '') continue;
    const have = installed[path];
    // Packages of other platforms are optional and rightly absent.
    if (have === undefined && entry.optional === true) continue;
    if (have?.version !== entry.version) return `${path.replace(/^.*node_modules\//, '')} is not at ${entry.version}`;
  }
  return undefined;
}

/** @returns {Record<string, { version?: string, optional?: boolean }>} */
function readPackages(path) {
  return JSON.parse(readFileSync(path, 'utf8')).packages ?? {};
}

/** Runs `npm ci` when something is missing. Says so in one line; npm's own output is shown only when it fails. */
export async function ensureInstalled() {
  const reason = installReason();
  if (reason === undefined) return;
  console.log(`pdscope: installing dependencies (${reason})`);
  const { code, output } = await runNpm(['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    isQuiet: true,
    // A production NODE_ENV would leave out what builds and tests need.
    env: { NODE_ENV: undefined },
  });
  if (code !== 0) {
    process.stderr.write(output);
    console.error(`pdscope: npm ci failed with exit code ${code}; what it said is above`);
    process.exit(code);
  }
}
