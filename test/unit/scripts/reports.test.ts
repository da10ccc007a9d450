import { describe, expect, it } from 'vitest';
import { countPlaywright, countReportFile, countVitest, retriedLines, sumCounts, summaryLine } from '../../../scripts/lib/reports.mjs';
import { tempDir } from './temp-dir.ts';

const file = (status: string, ...tests: string[]): object => ({ status, assertionResults: tests.map((test) => ({ status: test })) });
const BROKEN = { passed: 0, failed: 1, skipped: 0, retried: [] };

describe('countVitest', () => {
  it('adds up passed, failed, pending and todo', () => {
    const report = { numPassedTests: 5, numFailedTests: 1, numPendingTests: 2, numTodoTests: 1, testResults: [file('failed', 'passed', 'failed')] };
    expect(countVitest(report, 1)).toEqual({ passed: 5, failed: 1, skipped: 3, retried: [] });
  });

  it('counts a file that broke before its first test as one failure', () => {
    const report = { numPassedTests: 5, numFailedTests: 0, testResults: [file('passed', 'passed'), file('failed')] };
    expect(countVitest(report, 1)).toEqual({ passed: 5, failed: 1, skipped: 0, retried: [] });
  });

  it('fails a run that ended badly with only passed tests, and one that ran nothing', () => {
    expect(countVitest({ numPassedTests: 5, testResults: [] }, 1)).toEqual({ passed: 5, failed: 1, skipped: 0, retried: [] });
    expect(countVitest({ numPassedTests: 0, testResults: [] }, 0)).toEqual(BROKEN);
  });
});

describe('tests that needed a second try', () => {
  it('are counted as passed and named, of vitest', () => {
    const tests = [
      { status: 'passed', fullName: 'at once', failureMessages: [] },
      { status: 'passed', fullName: 'at the second try', failureMessages: ['AssertionError'] },
      { status: 'failed', fullName: 'never', failureMessages: ['AssertionError', 'AssertionError'] },
    ];
    const counts = countVitest({ numPassedTests: 2, numFailedTests: 1, testResults: [{ status: 'failed', assertionResults: tests }] }, 1);
    expect(counts).toEqual({ passed: 2, failed: 1, skipped: 0, retried: ['at the second try'] });
  });

  it('are counted as passed and named, of Playwright', () => {
    const specs = [{ title: 'at once', tests: [{ status: 'expected' }] }, { title: 'at the second try', tests: [{ status: 'flaky' }] }];
    const report = { stats: { expected: 1, unexpected: 0, flaky: 1, skipped: 0 }, suites: [{ specs: [], suites: [{ specs }] }] };
    expect(countPlaywright(report, 0)).toEqual({ passed: 2, failed: 0, skipped: 0, retried: ['at the second try'] });
  });

  it('are said before the sum', () => {
    expect(retriedLines(sumCounts([{ ...BROKEN, retried: ['one'] }, BROKEN, { ...BROKEN, retried: ['two'] }]))).toEqual([
      'needed a second try: one',
      'needed a second try: two',
    ]);
  });
});

describe('countPlaywright', () => {
  it('adds up expected and unexpected', () => {
    expect(countPlaywright({ stats: { expected: 3, unexpected: 2, flaky: 0, skipped: 2 } }, 1)).toEqual({ passed: 3, failed: 2, skipped: 2, retried: [] });
  });

  it('fails a run that reported nothing', () => {
    expect(countPlaywright({ stats: { expected: 0, unexpected: 0, flaky: 0, skipped: 0 } }, 0)).toEqual(BROKEN);
    expect(countPlaywright({}, 1)).toEqual(BROKEN);
  });
});

describe('countReportFile', () => {
  it('takes a missing or cut report for a failure', () => {
    using tree = tempDir();
    expect(countReportFile(`${tree.path}/none.json`, countVitest, 0)).toEqual(BROKEN);
    expect(countReportFile(tree.write('cut.json', '{"numPassedTests": 3'), countVitest, 0)).toEqual(BROKEN);
  });
});

describe('summaryLine', () => {
  it('mentions skipped tests only when there are some', () => {
    expect(summaryLine(sumCounts([{ passed: 2, failed: 0, skipped: 0, retried: [] }, { passed: 3, failed: 1, skipped: 0, retried: [] }]))).toBe('5 passed, 1 failed');
    expect(summaryLine({ passed: 2, failed: 0, skipped: 4, retried: [] })).toBe('2 passed, 0 failed, 4 skipped');
  });
});
