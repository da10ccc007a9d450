/**
 * `npm run bench`: what pdscope costs, beside the direct path in the same run. Prints tables; judges nothing.
 * Every figure is the median of `--rounds` rounds, the targets taking turns within a round, because machines are shared.
 */
import os from 'node:os';
import { parseArgs } from 'node:util';
import { startMockCluster } from './mock-cluster.ts';
import { TOKENS_PER_SECOND, tokensIn, type Part } from './part.ts';
import { indexPart } from './parts/block-index.ts';
import { kvLoadPart } from './parts/kv-load.ts';
import { kvPart } from './parts/kv.ts';
import { memoryPart } from './parts/memory.ts';
import { modesPart } from './parts/modes.ts';
import { pagePart } from './parts/page.ts';
import { requestsPart, streamsPart } from './parts/requests.ts';
import { routingPart } from './parts/routing.ts';
import { subscriberPart } from './parts/subscriber.ts';
import { cpuOfProcess, proxyTarget } from './target.ts';

const PARTS: readonly Part[] = [requestsPart, streamsPart, modesPart, routingPart, kvPart, kvLoadPart, indexPart, memoryPart, pagePart, subscriberPart];
const ALL = PARTS.map(({ name }) => name).join(',');

const HELP = `npm run bench -- [options]
  --only ${ALL}
                                      parts to run (default: all)
  --rounds N                          rounds per figure, medians are printed (default 3)
  --seconds N                         length of one measurement (default 4)
  --concurrency 1,64,512              clients of the requests part
  --streams 200,1000                  streams of the streams part
  --kv-rates 0,50000,200000,500000    block stores a second during the kv-load part
  --peer NAME=URL[#PID]               also measure another proxy (repeatable); point it at the mocks first;
                                      with PID its CPU time is read from /proc (one process, Linux)
  --prefill-port N --decode-port N    fixed ports of the mocks, for peers (default: any)
  --wait-for-peers                    print the mocks' addresses and wait for Enter before measuring`;

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: ALL },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    concurrency: { type: 'string', default: '1,64,512' },
    streams: { type: 'string', default: '200,1000' },
    'kv-rates': { type: 'string', default: '0,50000,200000,500000' },
    peer: { type: 'string', multiple: true, default: [] },
    'prefill-port': { type: 'string', default: '0' },
    'decode-port': { type: 'string', default: '0' },
    'wait-for-peers': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const asked = values.only.split(',');
const unknown = asked.find((name) => !PARTS.some((part) => part.name === name));
if (unknown !== undefined) {
  console.error(`npm run bench knows no part ${JSON.stringify(unknown)}; parts are: ${ALL}`);
  process.exit(2);
}
const rounds = Math.max(1, Number(values.rounds));
const seconds = Math.max(1, Number(values.seconds));

const mocks = await startMockCluster(
  { tokens: tokensIn(seconds), tokensPerSecond: TOKENS_PER_SECOND },
  { prefill: Number(values['prefill-port']), decode: Number(values['decode-port']) },
);
const load = (): string => os.loadavg().map((average) => average.toFixed(1)).join(' ');
console.log(`node ${process.version}, ${os.cpus().length} x ${os.cpus()[0]?.model ?? 'unknown CPU'}, load ${load()}; medians of ${rounds} rounds`);
console.log(`mocks: prefill ${mocks.prefill}, decode ${mocks.decode}`);
if (values['wait-for-peers']) {
  console.log('Point the peers at these mocks, then press Enter.');
  await new Promise((resolve) => {
    process.stdin.once('data', resolve);
  });
  process.stdin.pause();
}

const peers = values.peer.map((peer) => {
  const at = peer.indexOf('=');
  if (at < 1) throw new Error(`--peer wants NAME=URL or NAME=URL#PID, not ${JSON.stringify(peer)}`);
  const [url = '', pid] = peer.slice(at + 1).split('#');
  return proxyTarget(peer.slice(0, at), url, pid === undefined ? undefined : cpuOfProcess(Number(pid)));
});

const context = {
  rounds,
  seconds,
  concurrencies: values.concurrency.split(',').map(Number),
  streamCounts: values.streams.split(',').map(Number),
  kvRates: values['kv-rates'].split(',').map(Number),
  mocks,
  peers,
};
for (const part of PARTS) {
  if (!asked.includes(part.name)) continue;
  await part.run(context);
  console.log(`(load of the machine, 1, 5, 15 minutes: ${load()})`);
}
await mocks.close();
