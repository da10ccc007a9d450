/** Starts the relaying process (relay-process.ts) before mocks. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { MockCluster } from './mock-cluster.ts';

export interface Relays extends AsyncDisposable {
  /** In the order of the clusters. */
  readonly clusters: readonly Pick<MockCluster, 'prefill' | 'decode'>[];
}

export async function startRelays(clusters: readonly MockCluster[]): Promise<Relays> {
  const targets = clusters.flatMap(({ prefill, decode }) => [prefill, decode]).map((url) => new URL(url).host);
  const child = fork(fileURLToPath(new URL('./relay-process.js', import.meta.url)), targets, { execArgv: [] });
  const [urls] = (await once(child, 'message')) as [readonly string[]];
  return {
    clusters: clusters.map((_, at) => ({ prefill: urls[2 * at] ?? '', decode: urls[2 * at + 1] ?? '' })),
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}
