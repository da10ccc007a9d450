/** The measured process: the whole engine as hosts build it, telemetry on. Answers questions about its own use of the machine. */
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
  policy: 'round-robin',
  instances: options.instances,
  ...(options.demo !== undefined && { demo: options.demo }),
});

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

function answer(): void {
  const { rss } = process.memoryUsage();
  const usage: Usage = { cpu: process.cpuUsage(), rssBytes: rss, state: engine.state() };
  process.send?.(usage);
}
const { host, port } = engine.proxyAddress;
process.send?.({ ready: `http://${host}:${port}` });
