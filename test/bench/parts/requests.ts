/** What the proxy costs per two-leg request and per streamed chunk, beside the direct path and other proxies. */
import { printTable, type Cell } from '../figures.ts';
import { difference, inTurns, ratio, TOKENS_PER_SECOND, tokensIn, WARM_UP_SECONDS, type BenchContext, type Part } from '../part.ts';
import { startProxyProcess } from '../proxy-handle.ts';
import { measureRequests, measureStreams } from '../request-scenarios.ts';
import { cpuOfEngine, directTarget, proxyTarget, type Target } from '../target.ts';

const WARM_UP_CONCURRENCY = 64;

export const requestsPart: Part = {
  name: 'requests',
  run: async (context) => {
    const rows: Cell[][] = [];
    await withTargets(context, async (targets) => {
      for (const concurrency of context.concurrencies) {
        const results = await inTurns(context.rounds, targets, async (target) => await measureRequests(target, concurrency, context.seconds));
        const direct = results[0]?.[1];
        for (const [target, figures] of results) {
          rows.push([
            target.name, concurrency, figures.perSecond, ratio(figures.perSecond, direct?.perSecond),
            figures.p50Ms, difference(figures.p50Ms, direct?.p50Ms), figures.p99Ms,
            figures.cpuMicros, figures.cpuMicros === undefined ? undefined : 1e6 / figures.cpuMicros,
          ]);
        }
      }
    });
    printTable(
      'Two-leg completions, not streaming (prefill + decode, fixed answers)',
      ['target', 'c', 'req/s', 'of direct', 'p50 ms', 'added p50', 'p99 ms', 'CPU us/req', 'req/s per core'],
      rows,
    );
  },
};

export const streamsPart: Part = {
  name: 'streams',
  run: async (context) => {
    const tokens = tokensIn(context.seconds);
    const rows: Cell[][] = [];
    await withTargets(context, async (targets) => {
      for (const count of context.streamCounts) {
        const results = await inTurns(context.rounds, targets, async (target) => await measureStreams(target, count, tokens));
        const direct = results[0]?.[1];
        for (const [target, figures] of results) {
          rows.push([
            target.name, count, figures.chunks, figures.incomplete, figures.ttftP50Ms,
            figures.chunkP50Ms, difference(figures.chunkP50Ms, direct?.chunkP50Ms),
            figures.chunkP99Ms, difference(figures.chunkP99Ms, direct?.chunkP99Ms), figures.cpuMicros,
          ]);
        }
      }
    });
    printTable(
      `SSE streams that all begin at once, ${TOKENS_PER_SECOND} tokens/s each, ${tokens} tokens`,
      ['target', 'streams', 'chunks', 'incomplete', 'TTFT p50 ms', 'chunk p50 ms', 'added', 'chunk p99 ms', 'added', 'CPU us/chunk'],
      rows,
    );
  },
};

/** The direct path, an engine over the mocks, and the peers; warm. */
async function withTargets({ mocks, peers }: BenchContext, measure: (targets: readonly Target[]) => Promise<void>): Promise<void> {
  const engine = await startProxyProcess({
    instances: [
      { role: 'prefill', url: mocks.prefill },
      { role: 'decode', url: mocks.decode },
    ],
  });
  const targets = [directTarget(mocks), proxyTarget('pdscope', engine.url, cpuOfEngine(engine)), ...peers];
  // The first requests of a process run in the interpreter; what they cost is not what it costs.
  for (const target of targets) await measureRequests(target, WARM_UP_CONCURRENCY, WARM_UP_SECONDS);
  await measure(targets);
  await engine.stop();
}
