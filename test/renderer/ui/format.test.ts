import { describe, expect, it } from 'vitest';
import { formatAgo, formatBytes, formatClockGap, formatCompact, formatCount, formatDuration, formatMs, formatPercent, formatRate, formatWholePercent } from '../../../renderer/src/ui/format.ts';

const plain = (text: string): string => text.replaceAll('\u2009', ' ');

describe('format', () => {
  it.each([[0.623, '0.62'], [11.24, '11.2'], [99.96, '100.0'], [247.4, '247'], [1204, '1,204']])('formatMs(%d)', (ms, text) => {
    expect(formatMs(ms)).toBe(text);
  });

  it.each([
    [0.62, '0.62 ms'], [53, '53 ms'], [1200, '1.2 s'], [12_400, '12 s'], [59_999, '59 s'], [192_000, '3 m 12 s'], [1_800_000, '30 m'],
    [3_600_000, '1 h'], [5_400_000, '1 h 30 m'], [3 * 3_600_000 + 60_000, '3 h'], [52 * 3_600_000, '2 d 4 h'],
  ])('formatDuration(%d)', (ms, text) => {
    expect(plain(formatDuration(ms))).toBe(text);
  });

  it.each([[0, '0 ms'], [-0.2, '0 ms'], [-3, '−3 ms'], [3.4, '3 ms'], [47, '47 ms'], [-1200, '−1.2 s']])('formatClockGap(%d)', (ms, text) => {
    expect(plain(formatClockGap(ms))).toBe(text);
  });

  it.each([[980, '980'], [12_431, '12.4k'], [123_456, '123k'], [9_100_000, '9.1M'], [2_000_000_000, '2.0G']])('formatCompact(%d)', (value, text) => {
    expect(formatCompact(value)).toBe(text);
  });

  it.each([[0, '0'], [0.34, '0.3'], [4.0, '4'], [148.2, '148'], [3104, '3.1k']])('formatRate(%d)', (value, text) => {
    expect(formatRate(value)).toBe(text);
  });

  it.each([[0, '0'], [0.00007, '< 0.1'], [0.0004999, '< 0.1'], [0.0005, '0.1'], [0.462, '46.2'], [1, '100'], [0.9999, '> 99.9'], [0.9994, '99.9'], [0.999, '99.9']])('formatPercent(%d)', (share, text) => {
    expect(formatPercent(share)).toBe(text);
  });

  it.each([[0, '0'], [0.0005, '< 1'], [0.005, '1'], [0.464, '46'], [0.994, '99'], [0.996, '> 99'], [1, '100']])('formatWholePercent(%d)', (share, text) => {
    expect(formatWholePercent(share)).toBe(text);
  });

  it('keeps one unit for short ages, and never shows a negative one', () => {
    expect(plain(formatAgo(900))).toBe('0.9 s ago');
    expect(plain(formatAgo(-40))).toBe('0.0 s ago');
    expect(plain(formatAgo(72_000))).toBe('1 m 12 s ago');
  });

  it('counts in words and bytes in binary units', () => {
    expect(formatCount(1, 'request')).toBe('1 request');
    expect(formatCount(2, 'batch', 'batches')).toBe('2 batches');
    expect(plain(formatBytes(64_000_000))).toBe('61.0 MiB');
    expect(plain(formatBytes(999))).toBe('999 B');
  });
});
