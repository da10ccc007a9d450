/** What routing by prefix costs beside round-robin. */
import { printTable } from '../figures.ts';
import { inTurns, ratio, WARM_UP_SECONDS, type Part } from '../part.ts';
import { measureRequests } from '../request-scenarios.ts';
import { startRouting } from '../routing-scenario.ts';

const CONCURRENCY = 16;

export const routingPart: Part = {
  name: 'routing',
  run: async ({ rounds, seconds }) => {
    await using routing = await startRouting();
    for (const target of routing.targets) await measureRequests(target, CONCURRENCY, WARM_UP_SECONDS);
    const results = await inTurns(rounds, routing.targets, async (target) => await measureRequests(target, CONCURRENCY, seconds));
    const base = results[0]?.[1].cpuMicros;
    printTable(
      `Routing by prefix: CPU per request (completions over NIXL, 2 prefill and 2 decode instances, c=${CONCURRENCY})`,
      ['routing', 'req/s', 'p50 ms', 'CPU us/req', 'of round-robin'],
      results.map(([target, { perSecond, p50Ms, cpuMicros }]) => [target.name, perSecond, p50Ms, cpuMicros, ratio(cpuMicros, base)]),
    );
  },
};
