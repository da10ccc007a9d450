import { expect, it } from 'vitest';
import { ConfidenceLog } from '#engine/cache-hits/confidence-log.ts';

it('is the lowest in the window, however it is now', () => {
  const log = new ConfidenceLog();
  expect(log.lowest(0, 100)).toBeUndefined();
  for (const [second, value] of [[10, 1], [20, 0.4], [21, 0.4], [30, 0.9], [50, 0.9]] as const) log.add(second, { value, reasons: [] });
  expect([log.lowest(0, 19), log.lowest(0, 60), log.lowest(31, 60), log.lowest(0, 9), log.lowest(51, 60)].map((confidence) => confidence?.value)).toEqual([1, 0.4, 0.9, undefined, undefined]);
  // The last doubtful answer was at 21.
  expect([log.lowest(22, 60)?.value, log.lowest(22, 29)]).toEqual([0.9, undefined]);
});
