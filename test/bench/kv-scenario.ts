/** KV-event batches at a fixed rate into the whole engine: what arrived, what was lost, what it cost. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { cpuMicros, startProxyProcess } from './proxy-handle.ts';

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

export interface KvFigures {
  readonly offeredPerSecond: number;
  readonly sent: number;
  readonly received: number;
  readonly missed: number;
  readonly dropped: number;
  /** CPU of the engine per batch, microseconds. */
  readonly cpuMicros: number;
  readonly loopDelayP99Ms: number;
  readonly rssBytes: number;
}

/** Publishes `rate` batches/s for `seconds` to an engine with one instance. `url` is any server that answers /health. */
export async function measureKv(url: string, rate: number, seconds: number): Promise<KvFigures> {
  const endpoint = `tcp://127.0.0.1:${await freePort()}`;
  const publisher = fork(fileURLToPath(new URL('./kv-publisher-process.js', import.meta.url)), [endpoint, String(rate), String(seconds)]);
  await once(publisher, 'message');
  const engine = await startProxyProcess({
    instances: [{ role: 'decode', url, kvEvents: { endpoint, topic: '', ranks: 1, mode: 'connect' } }],
  });
  try {
    const connectDeadline = Date.now() + 10_000;
    for (;;) {
      const { state } = await engine.usage();
      if (state.streams[0]?.state === 'silent') break;
      if (Date.now() > connectDeadline) throw new Error(`the KV stream did not connect: ${state.streams[0]?.state}`);
      await new Promise((resolve) => {
        setTimeout(resolve, 100);
      });
    }
    const before = await engine.usage();
    publisher.send('go');
    const [report] = (await once(publisher, 'message')) as [{ sent: number; seconds: number }];
    const deadline = Date.now() + 15_000;
    let after = await engine.usage();
    let lastBatches = -1;
    while (Date.now() < deadline) {
      const batches = after.state.streams[0]?.batches ?? 0;
      if (batches >= report.sent || batches === lastBatches) break;
      lastBatches = batches;
      await new Promise((resolve) => {
        setTimeout(resolve, 500);
      });
      after = await engine.usage();
    }
    publisher.send('stop');
    const stream = after.state.streams[0];
    const received = stream?.batches ?? 0;
    return {
      offeredPerSecond: report.sent / report.seconds,
      sent: report.sent,
      received,
      missed: report.sent - received,
      dropped: stream?.droppedMessages ?? 0,
      cpuMicros: cpuMicros(before, after) / Math.max(1, received),
      loopDelayP99Ms: after.state.process.loopDelayP99Ms,
      rssBytes: after.rssBytes,
    };
  } finally {
    publisher.kill();
    await engine.stop();
  }
}
