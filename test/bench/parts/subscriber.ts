/**
 * `pdscope events` beside a subscriber as engines ship one as an example (Python, pyzmq, msgspec), fed by the same
 * publisher, one at a time: what each keeps up with, what it costs, what it loses. They do not do the same: Python decodes
 * and counts (or prints, as examples do); pdscope also checks the sequence, keeps what is resident and estimates hits.
 * Runs where `python3`, or what PYTHON names, has zmq and msgspec.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { printTable, type Cell } from '../figures.ts';
import { startPublisher } from '../kv-publisher.ts';
import { medianOf, pause, type Part } from '../part.ts';
import { cpuOfProcess } from '../target.ts';

const RATES = [20_000, 50_000, 100_000, 200_000, 400_000];
/** One block an event, as decoding stores them; so events and blocks are the same number. */
const SHAPE = { blocksPerEvent: 1, eventsPerBatch: 16 } as const;
/** For the subscription to reach the publisher. */
const JOIN_MS = 1500;
/** After the last batch: who is still busy then has not kept up. */
const DRAIN_MS = 1500;
/** Of what was sent, less does not count as keeping up: a batch may still be under way. */
const KEPT_UP = 0.999;

interface Subscriber {
  readonly name: string;
  readonly command: string;
  readonly args: (endpoint: string) => readonly string[];
  /** Where the totals are printed, as the last line of JSON. */
  readonly reportsOn: 'stdout' | 'stderr';
}

interface Figures {
  readonly offered: number;
  readonly share: number;
  readonly lost: number;
  readonly cpuMicros: number | undefined;
  readonly core: number | undefined;
}

export const subscriberPart: Part = {
  name: 'subscriber',
  run: async ({ rounds, seconds }) => {
    const python = process.env['PYTHON'] ?? 'python3';
    if (spawnSync(python, ['-c', 'import zmq, msgspec'], { stdio: 'ignore' }).status !== 0) {
      console.log(`\npdscope beside an example subscriber: skipped, ${python} does not have zmq and msgspec (pip install pyzmq msgspec, or set PYTHON)`);
      return;
    }
    const script = fileURLToPath(new URL('../../test/bench/subscriber.py', import.meta.url));
    const cli = fileURLToPath(new URL('../headless/cli.js', import.meta.url));
    const subscribers: readonly Subscriber[] = [
      { name: 'Python, msgspec, counting', command: python, args: (endpoint) => [script, endpoint], reportsOn: 'stderr' },
      { name: 'Python, msgspec, printing', command: python, args: (endpoint) => [script, endpoint, '--print'], reportsOn: 'stderr' },
      { name: 'pdscope events --stats', command: process.execPath, args: (endpoint) => [cli, 'events', endpoint, '--stats', '--json'], reportsOn: 'stdout' },
    ];
    const rows: Cell[][] = [];
    const kept = new Map<string, number>();
    for (const rate of RATES) {
      const results = subscribers.map((): Figures[] => []);
      for (let round = 0; round < rounds; round += 1) {
        for (const [at, subscriber] of subscribers.entries()) results[at]?.push(await measure(subscriber, rate, seconds));
      }
      for (const [at, { name }] of subscribers.entries()) {
        const f = medianOf(results[at] ?? []);
        if (f.share >= KEPT_UP) kept.set(name, Math.max(kept.get(name) ?? 0, f.offered));
        rows.push([name, f.offered, `${(f.share * 100).toFixed(1)} %`, f.lost, f.cpuMicros, f.core === undefined ? undefined : `${Math.round(f.core * 100)} %`]);
      }
    }
    printTable(
      'pdscope beside an example subscriber: events of one block, 16 a batch, one stream, one subscriber at a time',
      ['subscriber', 'events/s sent', 'taken in time', 'batches lost', 'CPU us/event', 'CPU of a core'],
      rows,
    );
    for (const { name } of subscribers) console.log(`${name}: ${kept.has(name) ? `keeps up with ${Math.round(kept.get(name) ?? 0).toLocaleString('en-US')} events/s` : 'kept up with none of the rates'}`);
  },
};

async function measure({ name, command, args, reportsOn }: Subscriber, rate: number, seconds: number): Promise<Figures> {
  await using publisher = await startPublisher({ streams: 1, shape: SHAPE });
  const [endpoint = ''] = publisher.endpoints;
  const child = spawn(command, args(endpoint), { stdio: ['ignore', reportsOn === 'stdout' ? 'pipe' : 'ignore', reportsOn === 'stderr' ? 'pipe' : 'ignore'] });
  let printed = '';
  child[reportsOn]?.on('data', (chunk: Buffer) => {
    printed = (printed + chunk.toString('utf8')).slice(-20_000);
  });
  await pause(JOIN_MS);
  if (child.pid === undefined || child.exitCode !== null) throw new Error(`${name} did not start: ${printed}`);
  const cpu = process.platform === 'linux' ? cpuOfProcess(child.pid) : async (): Promise<undefined> => undefined;
  await cpu();
  publisher.begin(rate);
  await pause(seconds * 1000);
  const report = await publisher.halt();
  await pause(DRAIN_MS);
  const micros = await cpu();
  const ended = once(child, 'close');
  child.kill('SIGTERM');
  await ended;
  const { events, missed } = totals(printed);
  return {
    offered: report.events / report.seconds,
    share: events / Math.max(1, report.events),
    lost: missed,
    cpuMicros: micros === undefined ? undefined : micros / Math.max(1, events),
    core: micros === undefined ? undefined : micros / 1e6 / report.seconds,
  };
}

/** The last line that has totals. */
function totals(printed: string): { readonly events: number; readonly missed: number } {
  const line = printed.trim().split('\n').findLast((text) => text.startsWith('{') && text.includes('"events"'));
  if (line === undefined) throw new Error(`no totals in: ${printed}`);
  return JSON.parse(line) as { readonly events: number; readonly missed: number };
}
