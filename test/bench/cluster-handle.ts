/** Starts the process of simulated instances and clients (cluster-process.ts) and gives it orders. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { InstanceSpec } from '#shared/instance.ts';

export interface ClusterShape {
  readonly prefill: number;
  readonly decode: number;
}

/** Traffic begins, once; or everything ends. */
export type ClusterOrder = { readonly baseUrl: string; readonly requestsPerSecond: number } | 'exit';

export interface ClusterHandle extends AsyncDisposable {
  readonly specs: InstanceSpec[];
  begin(baseUrl: string, requestsPerSecond: number): void;
}

export async function startCluster(shape: ClusterShape): Promise<ClusterHandle> {
  const child = fork(fileURLToPath(new URL('./cluster-process.js', import.meta.url)), [JSON.stringify(shape)], { execArgv: [] });
  const [{ specs }] = (await once(child, 'message')) as [{ readonly specs: InstanceSpec[] }];
  return {
    specs,
    begin: (baseUrl, requestsPerSecond) => {
      child.send({ baseUrl, requestsPerSecond } satisfies ClusterOrder);
    },
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, 'exit');
      child.send('exit' satisfies ClusterOrder);
      await exited;
    },
  };
}
