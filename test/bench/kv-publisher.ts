/** Starts the publishing process (kv-publisher-process.ts) and gives it orders. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { BatchShape } from './kv-frames.ts';

export interface PublisherOptions {
  /** PUB sockets; batches go to each in turn. */
  readonly streams: number;
  readonly shape: BatchShape;
}

export type PublisherOrder = { readonly blocksPerSecond: number } | 'halt' | 'exit';

export interface PublisherReport {
  readonly batches: number;
  readonly events: number;
  readonly blocks: number;
  readonly seconds: number;
}

export interface KvPublisher extends AsyncDisposable {
  readonly endpoints: readonly string[];
  begin(blocksPerSecond: number): void;
  /** Ends what `begin` began. */
  halt(): Promise<PublisherReport>;
}

export async function startPublisher(options: PublisherOptions): Promise<KvPublisher> {
  // Profiles are of the measured process, so options of this one stay here.
  const child = fork(fileURLToPath(new URL('./kv-publisher-process.js', import.meta.url)), [JSON.stringify(options)], { execArgv: [] });
  const [{ endpoints }] = (await once(child, 'message')) as [{ readonly endpoints: readonly string[] }];
  return {
    endpoints,
    begin: (blocksPerSecond) => {
      child.send({ blocksPerSecond } satisfies PublisherOrder);
    },
    halt: async () => {
      const report = once(child, 'message');
      child.send('halt' satisfies PublisherOrder);
      const [answer] = (await report) as [PublisherReport];
      return answer;
    },
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, 'exit');
      child.send('exit' satisfies PublisherOrder);
      await exited;
    },
  };
}
