/**
 * Publishes KV-event batches on real PUB sockets at a rate, from a process of its own. Says where it is bound, begins
 * and ends when told to, and then reports what it sent: a slow machine may not reach the rate.
 */
import { Publisher } from 'zeromq';
import { BatchMaker, sequenceFrame } from './kv-frames.ts';
import type { PublisherOptions, PublisherOrder, PublisherReport } from './kv-publisher.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as PublisherOptions;
/** The high-water mark of an engine's own publisher, beyond which libzmq drops (`hwm`, vllm/config/kv_events.py). */
const HIGH_WATER_MARK = 100_000;
const TURN_MS = 1;
/** Batches that are late by more than this are left out: the rate is what the machine can do, not a debt. */
const MAX_DEBT_S = 0.1;

const outlets = await Promise.all(Array.from({ length: options.streams }, async (_, at) => {
  const socket = new Publisher({ sendHighWaterMark: HIGH_WATER_MARK, linger: 0 });
  await socket.bind('tcp://127.0.0.1:*');
  return { socket, seq: 0, maker: new BatchMaker(options.shape, at * 2 ** 26) };
}));
const endpoints = outlets.map(({ socket }) => socket.lastEndpoint ?? '');
process.send?.({ endpoints });

let run = new AbortController();

async function publish(blocksPerSecond: number): Promise<PublisherReport> {
  run = new AbortController();
  const { signal } = run;
  const blocksPerBatch = outlets[0]?.maker.blocksPerBatch ?? 1;
  const batchesPerSecond = blocksPerSecond / blocksPerBatch;
  const startedMs = performance.now();
  let sent = 0;
  let leftOut = 0;
  while (!signal.aborted) {
    const due = Math.floor(((performance.now() - startedMs) / 1000) * batchesPerSecond) - leftOut;
    const debt = Math.floor(due - sent - batchesPerSecond * MAX_DEBT_S);
    if (debt > 0) leftOut += debt;
    for (let turnEndsMs = performance.now() + 5; sent < due && performance.now() < turnEndsMs; sent += 1) {
      const outlet = outlets[sent % outlets.length];
      if (outlet === undefined) break;
      await outlet.socket.send(['', sequenceFrame(outlet.seq), outlet.maker.next()]);
      outlet.seq += 1;
    }
    await new Promise((resolve) => {
      setTimeout(resolve, TURN_MS);
    });
  }
  const seconds = (performance.now() - startedMs) / 1000;
  return { batches: sent, blocks: sent * blocksPerBatch, events: sent * options.shape.eventsPerBatch, seconds };
}

process.on('message', (order: PublisherOrder) => {
  if (order === 'halt') run.abort();
  else if (order === 'exit') {
    for (const { socket } of outlets) socket.close();
    process.exit(0);
  } else void publish(order.blocksPerSecond).then((report) => process.send?.(report));
});
process.once('disconnect', () => process.exit(0));
