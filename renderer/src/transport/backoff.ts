/** Delay before attempt `attempt` (1-based): 250 ms doubling to 8 s, with +-20 % jitter so that many tabs do not knock together. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const base = Math.min(250 * 2 ** Math.max(0, attempt - 1), 8000);
  return Math.round(base * (0.8 + 0.4 * random()));
}
