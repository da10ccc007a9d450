/**
 * Numbers for people. Every function takes a plain number in the unit of its name; absence is the caller's business
 * (`Num` draws a dash), because a number that was not observed is never 0.
 */
const THIN = '\u2009';
/** What stands where a number was not observed. */
export const ABSENT = '\u2014';

const integer = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** `12,431` */
export function formatInteger(value: number): string {
  return integer.format(value);
}

/** `980`, `12.4k`, `9.1M`: for places where the exact figure is a hover away. */
export function formatCompact(value: number): string {
  const size = Math.abs(value);
  if (size < 1000) return integer.format(value);
  if (size < 100_000) return `${oneDigit.format(value / 1000)}k`;
  if (size < 1_000_000) return `${integer.format(value / 1000)}k`;
  if (size < 1e9) return `${oneDigit.format(value / 1e6)}M`;
  return `${oneDigit.format(value / 1e9)}G`;
}

/** Milliseconds without a unit, to three significant digits where they are small: `0.62`, `11.2`, `247`, `1,204`. */
export function formatMs(ms: number): string {
  if (ms < 1) return ms.toFixed(2);
  if (ms < 100) return oneDigit.format(ms);
  return integer.format(ms);
}

/** A duration with the unit that suits it: `0.62 ms`, `53 ms`, `1.20 s`, `3 m 12 s`, `3 h`, `2 d 4 h`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${ms < 10 && ms !== 0 ? ms.toFixed(2) : integer.format(ms)}${THIN}ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)}${THIN}s`;
  if (seconds < 60) return `${Math.floor(seconds)}${THIN}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return pair(minutes, 'm', Math.floor(seconds % 60), 's');
  if (minutes < 60) return `${minutes}${THIN}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return pair(hours, 'h', hours < 3 ? minutes % 60 : 0, 'm');
  return pair(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

/** Between two clocks that tell whole milliseconds: `0 ms`, `−3 ms`, `1.2 s`. */
export function formatClockGap(ms: number): string {
  const size = Math.abs(ms);
  const sign = ms < 0 && Math.round(size) > 0 ? '−' : '';
  return `${sign}${size < 10 ? `${Math.round(size)}${THIN}ms` : formatDuration(size)}`;
}

function pair(major: number, majorUnit: string, minor: number, minorUnit: string): string {
  const head = `${major}${THIN}${majorUnit}`;
  return minor === 0 ? head : `${head} ${minor}${THIN}${minorUnit}`;
}

/** Per second: `0.3`, `4.2`, `148`, `3.1k`. */
export function formatRate(perSecond: number): string {
  return perSecond < 10 ? trimZero(oneDigit.format(perSecond)) : formatCompact(Math.round(perSecond));
}

function trimZero(text: string): string {
  return text.endsWith('.0') ? text.slice(0, -2) : text;
}

/** 0..1 as `46.2`; the unit is the caller's. Only nothing reads 0, and only all reads 100: else `< 0.1`, `> 99.9`. */
export function formatPercent(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 0.05) return '< 0.1';
  if (percent < 100 && percent >= 99.95) return '> 99.9';
  return percent >= 100 || percent <= 0 ? integer.format(percent) : oneDigit.format(percent);
}

/** 0..1 as `46`, where there is room for no more; as above, only nothing reads 0, and only all reads 100. */
export function formatWholePercent(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 0.5) return '< 1';
  return percent < 100 && percent >= 99.5 ? '> 99' : integer.format(percent);
}

/** How long ago, in tenths of a second while that matters, so that the unit does not flicker: `0.9 s ago`, `3 m 12 s ago`. */
export function formatAgo(ms: number): string {
  const bounded = Math.max(0, ms);
  return `${bounded < 10_000 ? `${(bounded / 1000).toFixed(1)}${THIN}s` : formatDuration(bounded)} ago`;
}

/** Binary units: `61 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = value >= 100 || unit === 0 ? integer.format(value) : oneDigit.format(value);
  return `${digits}${THIN}${units[unit] ?? ''}`;
}

/** Local wall clock to the millisecond: `14:02:31.100`. */
export function formatClock(unixMs: number): string {
  const date = new Date(unixMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

/** Local date and time, for titles where the clock alone is not enough. */
export function formatDateTime(unixMs: number): string {
  const date = new Date(unixMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${formatClock(unixMs)}`;
}

/** `1 request`, `6 requests`. */
export function formatCount(value: number, noun: string, plural = `${noun}s`): string {
  return `${formatInteger(value)} ${value === 1 ? noun : plural}`;
}
