/**
 * Counts of tests, from what the runners themselves wrote. A runner that crashed, or that ran nothing, has failed:
 * silence is never success.
 */
import { readFileSync } from 'node:fs';

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */

/**
 * Counts of vitest's JSON report.
 * @param {any} report
 * @param {number} exitCode
 * @returns {Counts}
 */
export function countVitest(report, exitCode) {
  const skipped = (report.numPendingTests ?? 0) + (report.numTodoTests ?? 0);
  // A file that fails before its first test (import error, hook) has no failed test to show for it.
  const brokenFiles = (report.testResults ?? []).filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
  ).length;
  return settle({ passed: report.numPassedTests ?? 0, failed: (report.numFailedTests ?? 0) + brokenFiles, skipped }, exitCode);
}

/**
 * Counts of Playwright's JSON report. A flaky test failed once, so it failed.
 * @param {any} report
 * @param {number} exitCode
 * @returns {Counts}
 */
export function countPlaywright(report, exitCode) {
  const { expected = 0, unexpected = 0, flaky = 0, skipped = 0 } = report.stats ?? {};
  return settle({ passed: expected, failed: unexpected + flaky, skipped }, exitCode);
}

/** @param {string} path @param {(report: any, exitCode: number) => Counts} count @param {number} exitCode @returns {Counts} */
export function countReportFile(path, count, exitCode) {
  let report;
  try {
    report = JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return { passed: 0, failed: 1, skipped: 0 };
  }
  return count(report, exitCode);
}

/** @param {readonly Counts[]} all @returns {Counts} */
export function sumCounts(all) {
  const sum = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failed, skipped } of all) {
    sum.passed += passed;
    sum.failed += failed;
    sum.skipped += skipped;
  }
  return sum;
}

/** The last line of `npm test`. @param {Counts} counts */
export function summaryLine({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/** @param {Counts} counts @param {number} exitCode @returns {Counts} */
function settle(counts, exitCode) {
  const ranNothing = counts.passed + counts.failed + counts.skipped === 0;
  if (counts.failed === 0 && (exitCode !== 0 || ranNothing)) return { ...counts, failed: 1 };
  return counts;
}
