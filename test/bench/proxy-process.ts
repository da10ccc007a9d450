/** The measured process: the whole engine as hosts build it, telemetry on. Answers questions about its own use of the machine. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createEngine } from '#engine/engine.ts';
import { silentLogger } from '#engine/log.ts';
import type { ProxyProcessOptions, ProxyQuestion, Usage } from './proxy-handle.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as ProxyProcessOptions;
const engine = await createEngine({
  host: 'headless',
  version: 'bench',
  logger: silentLogger,
  proxy: { host: '127.0.0.1', port: 0 },
  connector: options.connector ?? 'nixl',
  ...(options.protocol !== undefined && { protocol: options.protocol }),
  policy: options.policy ?? 'round-robin',
  instances: options.instances,
});

process.once('disconnect', () => process.exit(0));
process.on('message', (question: ProxyQuestion) => {
  if (question === 'stop') {
    void engine.close().then(() => process.exit(0));
    return;
  }
  if (question === 'memory') {
    globalThis.gc?.();
    // Freed pages go back to the system a little later.
    setTimeout(answer, 1000);
  } else {
    answer();
  }
});

/** What the monitor reports includes one such interval, which is taken off. */
const LOOP_RESOLUTION_MS = 1;
const loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
loop.enable();

function answer(): void {
  const { rss, heapUsed, heapTotal } = process.memoryUsage();
  const late = (nanos: number): number => Math.max(0, nanos / 1e6 - LOOP_RESOLUTION_MS);
  const delays = { p50Ms: late(loop.percentile(50)), p99Ms: late(loop.percentile(99)), maxMs: late(loop.max) };
  loop.reset();
  const usage: Usage = { atMs: performance.now(), cpu: process.cpuUsage(), rssBytes: rss, heapUsedBytes: heapUsed, heapBytes: heapTotal, loop: delays, state: engine.state() };
  process.send?.(usage);
}
const { host, port } = engine.proxyAddress;
process.send?.({ ready: `http://${host}:${port}` });
