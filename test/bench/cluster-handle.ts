/** Starts the process of simulated instances and clients (cluster-process.ts), which ends with the connection to it. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { InstanceSpec } from '#shared/instance.ts';

export interface ClusterShape {
  readonly prefill: number;
  readonly decode: number;
}

/** Traffic begins, once. */
export interface ClusterOrder {
  readonly baseUrl: string;
  readonly requestsPerSecond: number;
}

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
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}
