/** Something that can be measured: the direct path, pdscope, or another proxy that was started by hand. */
import { readFileSync } from 'node:fs';
import { RawClient, postBytes, type RawAnswer } from './raw-http.ts';
import type { MockCluster } from './mock-cluster.ts';
import { cpuMicros, type ProxyHandle } from './proxy-handle.ts';

const PROMPT = 'word '.repeat(200);
const COMPLETION = { model: 'bench/model', prompt: PROMPT, max_tokens: 16 };
const CHAT_STREAM = { model: 'bench/model', messages: [{ role: 'user', content: PROMPT }], max_tokens: 500, stream: true };
const PREFILL_PARAMS = { do_remote_decode: true, do_remote_prefill: false };

/** One client's way to the answer. `prefillMs` is the part that even a perfect proxy cannot avoid. */
export interface Connection {
  complete(): Promise<{ readonly totalMs: number }>;
  /** `ttftMs`: until the first bytes of the answer's body. */
  stream(onChunk: (data: Buffer, atMs: number) => void): Promise<RawAnswer & { readonly ttftMs: number }>;
  close(): void;
}

export interface Target {
  readonly name: string;
  connect(): Promise<Connection>;
  /** CPU microseconds of the measured process since the last call; `undefined` where it cannot be asked. */
  cpuSinceLast(): Promise<number | undefined>;
}

/** The two legs made by the client itself, one after the other: what a proxy that costs nothing would take. */
export function directTarget(mocks: Pick<MockCluster, 'prefill' | 'decode'>, name = 'direct (two legs, no proxy)'): Target {
  const prefillCompletion = postBytes('/v1/completions', { ...COMPLETION, max_tokens: 1, kv_transfer_params: PREFILL_PARAMS });
  const prefillChat = postBytes('/v1/chat/completions', { ...CHAT_STREAM, stream: false, max_tokens: 1, kv_transfer_params: PREFILL_PARAMS });
  const decodeCompletion = postBytes('/v1/completions', { ...COMPLETION, kv_transfer_params: PREFILL_PARAMS });
  const decodeChat = postBytes('/v1/chat/completions', { ...CHAT_STREAM, kv_transfer_params: PREFILL_PARAMS });
  return {
    name,
    connect: async () => {
      const prefill = await RawClient.connect(mocks.prefill);
      const decode = await RawClient.connect(mocks.decode);
      return {
        complete: async () => {
          const startedMs = performance.now();
          await prefill.send(prefillCompletion);
          await decode.send(decodeCompletion);
          return { totalMs: performance.now() - startedMs };
        },
        stream: async (onChunk) => {
          const startedMs = performance.now();
          await prefill.send(prefillChat);
          const handedOverMs = performance.now();
          const answer = await decode.send(decodeChat, onChunk);
          return { ...answer, ttftMs: handedOverMs - startedMs + answer.firstBodyMs };
        },
        close: () => {
          prefill.close();
          decode.close();
        },
      };
    },
    cpuSinceLast: async () => undefined,
  };
}

/** Microseconds of CPU that a process used between two calls. */
export type CpuMeter = () => Promise<number | undefined>;

export function cpuOfEngine(handle: ProxyHandle): CpuMeter {
  let last: Awaited<ReturnType<ProxyHandle['usage']>> | undefined;
  return async () => {
    const now = await handle.usage();
    const micros = last === undefined ? undefined : cpuMicros(last, now);
    last = now;
    return micros;
  };
}

/** Of any process, in steps of 10 ms; Linux only. */
export function cpuOfProcess(pid: number): CpuMeter {
  let last: number | undefined;
  return async () => {
    // Fields 14 and 15, user and system time; the second field is a name in parentheses that may hold spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').replace(/^.*\) /, '').split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    const micros = last === undefined ? undefined : (ticks - last) * 10_000;
    last = ticks;
    return micros;
  };
}

/** A proxy at `url`, and what tells its CPU time. `fields` are added to every request's body. */
export function proxyTarget(name: string, url: string, cpuSinceLast: CpuMeter = async () => undefined, fields: object = {}): Target {
  const completion = postBytes('/v1/completions', { ...COMPLETION, ...fields });
  const chat = postBytes('/v1/chat/completions', { ...CHAT_STREAM, ...fields });
  return {
    name,
    connect: async () => {
      const client = await RawClient.connect(url);
      return {
        complete: async () => {
          const startedMs = performance.now();
          const answer = await client.send(completion);
          if (answer.status !== 200) throw new Error(`${name} answered ${answer.status}`);
          return { totalMs: performance.now() - startedMs };
        },
        stream: async (onChunk) => {
          const answer = await client.send(chat, onChunk);
          if (answer.status !== 200) throw new Error(`${name} answered ${answer.status}`);
          return { ...answer, ttftMs: answer.firstBodyMs };
        },
        close: () => client.close(),
      };
    },
    cpuSinceLast,
  };
}
