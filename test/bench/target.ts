/** Something that can be measured: the direct path, pdscope, or another proxy that was started by hand. */
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
export function directTarget(mocks: MockCluster): Target {
  const prefillCompletion = postBytes('/v1/completions', { ...COMPLETION, max_tokens: 1, kv_transfer_params: PREFILL_PARAMS });
  const prefillChat = postBytes('/v1/chat/completions', { ...CHAT_STREAM, stream: false, max_tokens: 1, kv_transfer_params: PREFILL_PARAMS });
  const decodeCompletion = postBytes('/v1/completions', { ...COMPLETION, kv_transfer_params: PREFILL_PARAMS });
  const decodeChat = postBytes('/v1/chat/completions', { ...CHAT_STREAM, kv_transfer_params: PREFILL_PARAMS });
  return {
    name: 'direct (two legs, no proxy)',
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
          return { ...answer, ttftMs: handedOverMs - startedMs + answer.firstByteMs };
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

/** A proxy at `url`; its CPU is known when it is our own process. */
export function proxyTarget(name: string, url: string, handle?: ProxyHandle): Target {
  const completion = postBytes('/v1/completions', COMPLETION);
  const chat = postBytes('/v1/chat/completions', CHAT_STREAM);
  let last: Awaited<ReturnType<ProxyHandle['usage']>> | undefined;
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
          return { ...answer, ttftMs: answer.firstByteMs };
        },
        close: () => client.close(),
      };
    },
    cpuSinceLast: async () => {
      if (handle === undefined) return undefined;
      const now = await handle.usage();
      const micros = last === undefined ? undefined : cpuMicros(last, now);
      last = now;
      return micros;
    },
  };
}
