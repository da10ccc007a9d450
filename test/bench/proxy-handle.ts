/** Starts the measured process and asks it questions over IPC. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { InstanceSpec } from '#shared/instance.ts';
import type { ProtocolOptions } from '#shared/protocol.ts';
import type { EngineState } from '#shared/state.ts';
import type { ConnectorName, PolicyName } from '#shared/vocabulary.ts';

export interface ProxyProcessOptions {
  readonly instances: InstanceSpec[];
  /** Default nixl. */
  readonly connector?: ConnectorName;
  /** Default round-robin. */
  readonly policy?: PolicyName;
  readonly protocol?: Partial<ProtocolOptions>;
}

export type ProxyQuestion = 'usage' | 'memory' | 'stop';

export interface Usage {
  /** Monotonic clock of the engine's process. */
  readonly atMs: number;
  readonly cpu: NodeJS.CpuUsage;
  readonly rssBytes: number;
  /** Of JavaScript objects, what nobody refers to any more included. */
  readonly heapUsedBytes: number;
  /** What V8 has reserved for them. */
  readonly heapBytes: number;
  /** How late the event loop ran since the question before, ms. */
  readonly loop: { readonly p50Ms: number; readonly p99Ms: number; readonly maxMs: number };
  readonly state: EngineState;
}

export interface ProxyHandle {
  /** Base URL without a path. */
  readonly url: string;
  usage(): Promise<Usage>;
  /** After a full garbage collection. It throws compiled code away, so nothing is timed after it. */
  memory(): Promise<Usage>;
  stop(): Promise<void>;
}

async function answerOf<T>(child: ChildProcess): Promise<T> {
  const [message] = (await once(child, 'message', { signal: AbortSignal.timeout(30_000) })) as [T];
  return message;
}

/** Forks the engine. Rejects when it does not come up within 30 s. */
export async function startProxyProcess(options: ProxyProcessOptions): Promise<ProxyHandle> {
  const child = fork(fileURLToPath(new URL('./proxy-process.js', import.meta.url)), [JSON.stringify(options)], {
    // The heap flags that pdscope ships with. Options of this process go along, for profiles: node --cpu-prof out/bench/bench.js
    execArgv: ['--max-old-space-size=1024', '--initial-old-space-size=256', '--no-memory-reducer', ...process.execArgv, '--expose-gc'],
  });
  const ask = async (question: ProxyQuestion): Promise<Usage> => {
    const answer = answerOf<Usage>(child);
    child.send(question);
    return await answer;
  };
  const { ready } = await answerOf<{ ready: string }>(child);
  return {
    url: ready,
    usage: async () => await ask('usage'),
    memory: async () => await ask('memory'),
    stop: async () => {
      const exited = once(child, 'exit');
      child.send('stop' satisfies ProxyQuestion);
      await exited;
    },
  };
}

/** CPU microseconds spent between two answers. */
export function cpuMicros(before: Usage, after: Usage): number {
  return after.cpu.user + after.cpu.system - before.cpu.user - before.cpu.system;
}
