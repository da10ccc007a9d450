/** What each P/D protocol costs beside NIXL. */
import { printTable } from '../figures.ts';
import { startModes } from '../mode-scenario.ts';
import { inTurns, ratio, TOKENS_PER_SECOND, tokensIn, WARM_UP_SECONDS, type Part } from '../part.ts';
import { measureRequests, measureStreams } from '../request-scenarios.ts';

const CONCURRENCY = 16;
const STREAMS = 100;

export const modesPart: Part = {
  name: 'modes',
  run: async ({ rounds, seconds }) => {
    const tokens = tokensIn(seconds);
    await using modes = await startModes({ tokens, tokensPerSecond: TOKENS_PER_SECOND });
    for (const target of modes.targets) await measureRequests(target, CONCURRENCY, WARM_UP_SECONDS);
    const requests = await inTurns(rounds, modes.targets, async (target) => await measureRequests(target, CONCURRENCY, seconds));
    const streams = await inTurns(rounds, modes.targets, async (target) => await measureStreams(target, STREAMS, tokens));
    const nixl = { request: requests[0]?.[1].cpuMicros, chunk: streams[0]?.[1].cpuMicros };
    printTable(
      `Protocols: CPU per request (completions, c=${CONCURRENCY}) and per chunk (${STREAMS} streams), beside nixl`,
      ['mode', 'req/s', 'p50 ms', 'CPU us/req', 'of nixl', 'CPU us/chunk', 'of nixl'],
      requests.map(([target, { perSecond, p50Ms, cpuMicros }], i) => {
        const chunk = streams[i]?.[1].cpuMicros;
        return [target.name, perSecond, p50Ms, cpuMicros, ratio(cpuMicros, nixl.request), chunk, ratio(chunk, nixl.chunk)];
      }),
    );
  },
};
