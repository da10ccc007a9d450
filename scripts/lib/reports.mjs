/**
 * Counts of tests, from what the runners themselves wrote. A runner that crashed, or that ran nothing, has failed:
 * silence is never success.
 */
import { readFileSync } from 'node:fs';

/**
 * `retried`: tests that failed once and passed when tried again, by name. They count as passed, and are named.
 * @typedef {{ passed: number, failed: number, skipped: number, retried: readonly string[] }} Counts
 */

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
  const retried = (report.testResults ?? [])
    .flatMap((file) => file.assertionResults)
    .filter(({ status, failureMessages = [] }) => status === 'passed' && failureMessages.length > 0)
    .map(({ fullName }) => fullName);
  return settle({ passed: report.numPassedTests ?? 0, failed: (report.numFailedTests ?? 0) + brokenFiles, skipped, retried }, exitCode);
}

/**
 * Counts of Playwright's JSON report.
 * @param {any} report
 * @param {number} exitCode
 * @returns {Counts}
 */
export function countPlaywright(report, exitCode) {
  const { expected = 0, unexpected = 0, flaky = 0, skipped = 0 } = report.stats ?? {};
  return settle({ passed: expected + flaky, failed: unexpected, skipped, retried: (report.suites ?? []).flatMap((suite) => flakyOf(suite)) }, exitCode);
}

/** Names of a suite's flaky tests, those of the suites in it included. @param {any} suite @returns {string[]} */
function flakyOf({ specs = [], suites = [] }) {
  const own = specs.filter(({ tests }) => tests.some(({ status }) => status === 'flaky')).map(({ title }) => title);
  return [...own, ...suites.flatMap((suite) => flakyOf(suite))];
}

/** @param {string} path @param {(report: any, exitCode: number) => Counts} count @param {number} exitCode @returns {Counts} */
export function countReportFile(path, count, exitCode) {
  let report;
  try {
    report = JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return { passed: 0, failed: 1, skipped: 0, retried: [] };
  }
  return count(report, exitCode);
}

/** @param {readonly Counts[]} all @returns {Counts} */
export function sumCounts(all) {
  /** @type {(part: 'passed' | 'failed' | 'skipped') => number} */
  const sum = (part) => all.reduce((total, counts) => total + counts[part], 0);
  return { passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped'), retried: all.flatMap(({ retried }) => retried) };
}

/** What is to be said of tests that needed a second try: one line each. @param {Counts} counts */
export function retriedLines({ retried }) {
  return retried.map((name) => `needed a second try: ${name}`);
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
