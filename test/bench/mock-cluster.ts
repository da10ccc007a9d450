/** Prefill and decode mocks with fixed answers: no model, no cache, as little work as a server can do. */
import type net from 'node:net';
import { startRawServer } from './raw-http.ts';

const MODEL = 'bench/model';

function answer(body: string): Buffer {
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

const MODELS = answer(JSON.stringify({ object: 'list', data: [{ id: MODEL, object: 'model', max_model_len: 32768 }] }));
const VERSION = answer(JSON.stringify({ version: '0.0.0-bench' }));
const EMPTY = answer('');
/** Of any prompt; as many as its usage says. */
const TOKENS = answer(JSON.stringify({ count: 256, max_model_len: 32768, tokens: Array.from({ length: 256 }, (_, at) => 1000 + at * 7), token_strs: null }));

const ENGINE_ID = '2f5a0d0c-7a6f-4a43-8f4c-0123456789ab';
/** What the prefill mock answers as `kv_transfer_params`. */
export const PULL_PARAMS = {
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_block_ids: [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]],
  remote_engine_id: ENGINE_ID,
  remote_request_id: 'cmpl-bench-0-0a1b2c3d',
  remote_host: '127.0.0.1',
  remote_port: 5600,
  tp_size: 1,
  remote_num_tokens: 256,
  remote_blocks_expiry_time: null,
  transfer_mode: 'pull',
};

function prefillAnswer(params: object | null): Buffer {
  return answer(
    JSON.stringify({
      id: 'cmpl-bench',
      object: 'text_completion',
      created: 1_790_000_000,
      model: MODEL,
      choices: [{ index: 0, text: 'x', logprobs: null, finish_reason: 'length', stop_reason: null }],
      usage: { prompt_tokens: 256, total_tokens: 257, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 128 } },
      kv_transfer_params: params,
    }),
  );
}
/** A Mooncake bootstrap server's answer to /query. */
const BOOTSTRAP = answer(JSON.stringify({ '0': { engine_id: ENGINE_ID, worker_addr: { '0': { '0': 'tcp://127.0.0.1:5600' } } } }));

const DECODE = answer(
  JSON.stringify({
    id: 'cmpl-bench',
    object: 'text_completion',
    created: 1_790_000_000,
    model: MODEL,
    choices: [{ index: 0, text: 'the quick brown fox jumps over the lazy dog', logprobs: null, finish_reason: 'length', stop_reason: null }],
    usage: { prompt_tokens: 256, total_tokens: 272, completion_tokens: 16 },
    kv_transfer_params: null,
  }),
);

const STREAM_HEAD = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n',
);

function httpChunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}

/** A decode chunk that carries its own send time, so that the other end knows how long it was under way. */
function tokenChunk(): string {
  return httpChunk(
    `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1790000000,"model":"${MODEL}","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"t":${performance.now().toFixed(3)}}\n\n`,
  );
}

const DONE = `${httpChunk('data: [DONE]\n\n')}0\r\n\r\n`;

export interface MockCluster {
  readonly prefill: string;
  readonly decode: string;
  close(): Promise<void>;
}

export interface StreamShape {
  readonly tokens: number;
  readonly tokensPerSecond: number;
}

/** 0 chooses a free port. A peer proxy under measurement needs to know them beforehand. */
export interface MockPorts {
  readonly prefill: number;
  readonly decode: number;
}

/**
 * Starts one prefill and one decode mock. Streams send their tokens evenly, each with its own phase.
 * @param params what prefill answers as kv_transfer_params.
 */
export async function startMockCluster(shape: StreamShape, ports: MockPorts, params: object | null = PULL_PARAMS): Promise<MockCluster> {
  const prefillBytes = prefillAnswer(params);
  const intervalMs = 1000 / shape.tokensPerSecond;
  const streams = new Set<{ socket: net.Socket; left: number; nextMs: number }>();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    for (const stream of streams) {
      if (stream.nextMs > nowMs) continue;
      if (stream.socket.destroyed) {
        streams.delete(stream);
        continue;
      }
      stream.nextMs += intervalMs;
      stream.left -= 1;
      if (stream.left > 0) stream.socket.write(tokenChunk());
      else {
        streams.delete(stream);
        stream.socket.write(tokenChunk() + DONE);
      }
    }
  }, 1);

  const common = (head: string, socket: net.Socket): boolean => {
    if (head.startsWith('POST /tokenize')) {
      socket.write(TOKENS);
      return true;
    }
    if (!head.startsWith('GET ')) return false;
    const known = [['/v1/models', MODELS], ['/version', VERSION], ['/query', BOOTSTRAP]] as const;
    socket.write(known.find(([path]) => head.startsWith(`GET ${path}`))?.[1] ?? EMPTY);
    return true;
  };
  const prefill = await startRawServer(ports.prefill, (head, socket) => {
    if (!common(head, socket)) socket.write(prefillBytes);
  });
  const decode = await startRawServer(ports.decode, (head, socket) => {
    if (common(head, socket)) return;
    if (!head.startsWith('POST /v1/chat')) {
      socket.write(DECODE);
      return;
    }
    socket.write(STREAM_HEAD);
    streams.add({ socket, left: shape.tokens, nextMs: performance.now() + Math.random() * intervalMs });
  });
  return {
    prefill: prefill.url,
    decode: decode.url,
    close: async () => {
      clearInterval(timer);
      await Promise.all([prefill.close(), decode.close()]);
    },
  };
}
