#!/usr/bin/env node
/**
 * `npm test`: installs what is missing, builds what is stale, runs everything and ends with the sum of what the runners
 * reported. `npm test -- unit lint` runs parts. Plain Node until the dependencies are there.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ensureNode } from './lib/check-node.mjs';
import { ensureChromium } from './lib/chromium.mjs';
import { findElectron } from './lib/electron.mjs';
import { ensureBuilt } from './lib/ensure-built.mjs';
import { ensureInstalled } from './lib/install.mjs';
import { packageBin } from './lib/package-bin.mjs';
import { REPORTS, ROOT } from './lib/paths.mjs';
import { countPlaywright, countReportFile, countVitest, retriedLines, sumCounts, summaryLine } from './lib/reports.mjs';
import { run } from './lib/run.mjs';

const VITEST_PARTS = ['unit', 'renderer', 'integration'];
const PLAYWRIGHT_PARTS = ['e2e', 'desktop'];
const PARTS = ['types', 'lint', 'bundle', ...VITEST_PARTS, ...PLAYWRIGHT_PARTS];
/** Parts that look at the built product. */
const NEED_BUILD = new Set(['bundle', 'integration', ...PLAYWRIGHT_PARTS]);
/** The machines this must run on have two cores. */
const WORKERS = '2';

const asked = process.argv.slice(2);
const unknown = asked.filter((part) => !PARTS.includes(part));
if (unknown.length > 0) {
  console.error(`npm test knows no part "${unknown[0]}"; parts are: ${PARTS.join(', ')}`);
  process.exit(2);
}
const wanted = new Set(asked.length > 0 ? asked : PARTS);
const wants = (part) => wanted.has(part);
/** @type {import('./lib/reports.mjs').Counts[]} */
const counts = [];
/** @type {string[]} */
const notes = [];

ensureNode();
await ensureInstalled();
rmSync(REPORTS, { recursive: true, force: true });
mkdirSync(REPORTS, { recursive: true });
if ([...wanted].some((part) => NEED_BUILD.has(part))) await ensureBuilt();

if (wants('types')) {
  const tsc = packageBin('typescript', 'tsc');
  await check('type check', [tsc, '-p', 'tsconfig.node.json'], [tsc, '-p', 'tsconfig.web.json']);
}
if (wants('lint')) await check('lint and import directions', [packageBin('oxlint', 'oxlint'), '--type-aware', '--deny-warnings']);
if (wants('bundle')) await check('bundle size', [join(ROOT, 'scripts', 'check-bundle.mjs')]);
if (VITEST_PARTS.some(wants)) await vitest(VITEST_PARTS.filter(wants));
if (PLAYWRIGHT_PARTS.some(wants)) await playwright(PLAYWRIGHT_PARTS.filter(wants));

const total = sumCounts(counts);
for (const note of [...notes, ...retriedLines(total)]) console.log(note);
console.log(summaryLine(total));
process.exit(total.failed > 0 ? 1 : 0);

/** One check that counts as one test: every command must end with 0. */
async function check(title, ...commands) {
  let isOk = true;
  for (const command of commands) {
    const { code, output } = await run(process.execPath, command, { isQuiet: true });
    if (code === 0) continue;
    isOk = false;
    process.stdout.write(output);
  }
  console.log(`${isOk ? 'ok' : 'FAILED'}: ${title}`);
  counts.push({ passed: isOk ? 1 : 0, failed: isOk ? 0 : 1, skipped: 0, retried: [] });
}

async function vitest(projects) {
  const report = join(REPORTS, 'vitest.json');
  const { code } = await run(process.execPath, [
    packageBin('vitest', 'vitest'),
    'run',
    ...projects.flatMap((project) => ['--project', project]),
    `--maxWorkers=${WORKERS}`,
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
  ]);
  counts.push(countReportFile(report, countVitest, code));
}

async function playwright(projects) {
  const electron = findElectron();
  if (projects.includes('desktop') && electron.path === undefined) {
    notes.push(`desktop (_electron) suite skipped: ${electron.reason}`);
  }
  const chromium = projects.includes('e2e') ? await ensureChromium() : undefined;
  if (projects.includes('e2e') && chromium === undefined) {
    counts.push({ passed: 0, failed: 1, skipped: 0, retried: [] });
    notes.push('e2e suite FAILED: no browser on this machine');
    projects = projects.filter((project) => project !== 'e2e');
    if (projects.length === 0) return;
  }
  const report = join(REPORTS, 'playwright.json');
  const { code } = await run(
    process.execPath,
    [packageBin('@playwright/test', 'playwright'), 'test', ...projects.map((project) => `--project=${project}`), '--reporter=list,json'],
    { env: { PLAYWRIGHT_JSON_OUTPUT_NAME: report, CHROMIUM_PATH: chromium } },
  );
  counts.push(countReportFile(report, countPlaywright, code));
}
