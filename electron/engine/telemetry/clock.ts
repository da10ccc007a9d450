/** Monotonic time with one fixed anchor on the wall clock, so that series stay in order when the wall clock jumps. */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Unix milliseconds of monotonic zero. */
  readonly originUnixMs: number;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  originUnixMs: performance.timeOrigin,
};

/** Seconds since 1970 of a monotonic time. */
export function secondOf(clock: Clock, nowMs: number): number {
  return Math.floor((clock.originUnixMs + nowMs) / 1000);
}

export function unixMsOf(clock: Clock, nowMs: number): number {
  return clock.originUnixMs + nowMs;
}
