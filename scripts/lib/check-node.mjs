/** Stops with one line on a Node that the dependencies do not run on, before any of them can fail in its own words. */
import { readPackage } from './paths.mjs';

/**
 * @param {string} [version] `major.minor.patch`
 * @returns {string | undefined} What is wrong; undefined when nothing is.
 */
export function nodeProblem(version = process.versions.node) {
  const wanted = readPackage().engines.node.replace('>=', '');
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [wantedMajor = 0, wantedMinor = 0] = wanted.split('.').map(Number);
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) return undefined;
  return `pdscope needs Node ${wanted} or newer; this is ${version}`;
}

export function ensureNode() {
  const problem = nodeProblem();
  if (problem === undefined) return;
  console.error(problem);
  process.exit(1);
}
