import { describe, expect, it } from 'vitest';
import { countPlaywright, countReportFile, countVitest, sumCounts, summaryLine } from '../../../scripts/lib/reports.mjs';
import { tempDir } from './temp-dir.ts';

const file = (status: string, ...tests: string[]): object => ({ status, assertionResults: tests.map((test) => ({ status: test })) });

describe('countVitest', () => {
  it('adds up passed, failed, pending and todo', () => {
    const report = { numPassedTests: 5, numFailedTests: 1, numPendingTests: 2, numTodoTests: 1, testResults: [file('failed', 'passed', 'failed')] };
    expect(countVitest(report, 1)).toEqual({ passed: 5, failed: 1, skipped: 3 });
  });

  it('counts a file that broke before its first test as one failure', () => {
    const report = { numPassedTests: 5, numFailedTests: 0, testResults: [file('passed', 'passed'), file('failed')] };
    expect(countVitest(report, 1)).toEqual({ passed: 5, failed: 1, skipped: 0 });
  });

  it('fails a run that ended badly with only passed tests, and one that ran nothing', () => {
    expect(countVitest({ numPassedTests: 5, testResults: [] }, 1)).toEqual({ passed: 5, failed: 1, skipped: 0 });
    expect(countVitest({ numPassedTests: 0, testResults: [] }, 0)).toEqual({ passed: 0, failed: 1, skipped: 0 });
  });
});

describe('countPlaywright', () => {
  it('counts a flaky test as failed', () => {
    expect(countPlaywright({ stats: { expected: 3, unexpected: 1, flaky: 1, skipped: 2 } }, 1)).toEqual({ passed: 3, failed: 2, skipped: 2 });
  });

  it('fails a run that reported nothing', () => {
    expect(countPlaywright({ stats: { expected: 0, unexpected: 0, flaky: 0, skipped: 0 } }, 0)).toEqual({ passed: 0, failed: 1, skipped: 0 });
    expect(countPlaywright({}, 1)).toEqual({ passed: 0, failed: 1, skipped: 0 });
  });
});

describe('countReportFile', () => {
  it('takes a missing or cut report for a failure', () => {
    using tree = tempDir();
    expect(countReportFile(`${tree.path}/none.json`, countVitest, 0)).toEqual({ passed: 0, failed: 1, skipped: 0 });
    expect(countReportFile(tree.write('cut.json', '{"numPassedTests": 3'), countVitest, 0)).toEqual({ passed: 0, failed: 1, skipped: 0 });
  });
});

describe('summaryLine', () => {
  it('mentions skipped tests only when there are some', () => {
    expect(summaryLine(sumCounts([{ passed: 2, failed: 0, skipped: 0 }, { passed: 3, failed: 1, skipped: 0 }]))).toBe('5 passed, 1 failed');
    expect(summaryLine({ passed: 2, failed: 0, skipped: 4 })).toBe('2 passed, 0 failed, 4 skipped');
  });
});
