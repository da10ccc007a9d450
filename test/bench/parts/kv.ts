/** KV-event batches at a fixed rate into the whole engine: what arrived, what was lost, what it cost. */
import { printTable, type Cell } from '../figures.ts';
import { connected, settled, totalsOf } from '../kv-settle.ts';
import { startPublisher } from '../kv-publisher.ts';
import { medianOf, pause, type Part } from '../part.ts';
import { cpuMicros, startProxyProcess } from '../proxy-handle.ts';

const RATES = [1000, 10_000, 30_000];

interface KvFigures {
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

export const kvPart: Part = {
  name: 'kv',
  run: async ({ mocks, rounds, seconds }) => {
    const rows: Cell[][] = [];
    for (const rate of RATES) {
      const results: KvFigures[] = [];
      for (let round = 0; round < rounds; round += 1) results.push(await measureKv(mocks.decode, rate, seconds));
      const figures = medianOf(results);
      rows.push([
        `${rate.toLocaleString('en-US')} batches/s`, figures.offeredPerSecond, figures.sent, figures.received, figures.missed,
        figures.dropped, figures.cpuMicros, (figures.cpuMicros * figures.offeredPerSecond) / 1e4, figures.loopDelayP99Ms, figures.rssBytes / 1e6,
      ]);
    }
    printTable(
      'KV events: batches of one stored block (16 tokens), one stream',
      ['offered', 'real rate', 'sent', 'received', 'missed', 'dropped', 'CPU us/batch', '% of a core', 'loop p99 ms', 'RSS MB'],
      rows,
    );
  },
};

/** Publishes `rate` batches/s for `seconds` to an engine with one instance. `url` is any server that answers /health. */
async function measureKv(url: string, rate: number, seconds: number): Promise<KvFigures> {
  await using publisher = await startPublisher({ streams: 1, shape: { blocksPerEvent: 1, eventsPerBatch: 1 } });
  const [endpoint = ''] = publisher.endpoints;
  const engine = await startProxyProcess({
    instances: [{ role: 'decode', url, kvEvents: { endpoint, topic: '', ranks: 1, mode: 'connect' } }],
  });
  try {
    await connected(engine);
    const before = await engine.usage();
    publisher.begin(rate);
    await pause(seconds * 1000);
    const report = await publisher.halt();
    const { loop } = await engine.usage();
    const after = await settled(engine);
    const { applied, dropped } = totalsOf(after.state);
    return {
      offeredPerSecond: report.batches / report.seconds,
      sent: report.batches,
      received: applied,
      missed: report.batches - applied,
      dropped,
      cpuMicros: cpuMicros(before, after) / Math.max(1, applied),
      loopDelayP99Ms: loop.p99Ms,
      rssBytes: after.rssBytes,
    };
  } finally {
    await engine.stop();
  }
}
