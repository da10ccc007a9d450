/** How the simulator's tests talk to it: plain HTTP with raw bodies, real ZMQ sockets, and waiting for states. */
import http from 'node:http';
import { decode } from '@msgpack/msgpack';
import { afterEach } from 'vitest';
import { Dealer, Subscriber } from 'zeromq';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';

/** Starts engines that are closed after the test; for the top of a file. */
export function simStarter(defaults: SimInstanceOptions): (options?: Partial<SimInstanceOptions>) => Promise<SimInstance> {
  const open: SimInstance[] = [];
  afterEach(async () => {
    for (const instance of open.splice(0)) await instance.close();
  });
  return async (options) => {
    const instance = await startSimInstance({ ...defaults, ...options });
    open.push(instance);
    return instance;
  };
}

export const CHAT = '/v1/chat/completions';
export const COMPLETIONS = '/v1/completions';

export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
  /** The connection broke before the end. */
  readonly isCut: boolean;
}

export interface SendInput {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Objects are sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

export function send(instance: Pick<SimInstance, 'url'>, path: string, input: SendInput = {}): Promise<Answer> {
  const { body, signal } = input;
  const payload = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const request = http.request(`${instance.url}${path}`, {
      agent: false,
      method: input.method ?? (body === undefined ? 'GET' : 'POST'),
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...input.headers },
      ...(signal !== undefined && { signal }),
    });
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      const done = (isCut: boolean): void => resolve({ status: response.statusCode ?? 0, headers: response.headers, text, isCut });
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => done(false));
      response.on('error', () => done(true));
    });
    request.end(payload);
  });
}

/** The parsed JSON body. The shape is the test's to know. */
// oxlint-disable-next-line typescript/no-explicit-any -- bodies of a foreign protocol, asserted field by field
export function json(answer: Answer): any {
  return JSON.parse(answer.text);
}

/** The JSON objects of an SSE body. Throws when a line does not fit the format. */
// oxlint-disable-next-line typescript/no-explicit-any -- as above
export function sseObjects(text: string): any[] {
  const events = text.split('\n\n');
  if (events.pop() !== '') throw new Error('a stream must end with a blank line');
  if (events.pop() !== 'data: [DONE]') throw new Error('a stream must end with [DONE]');
  return events.map((event) => {
    if (!event.startsWith('data: ') || event.includes('\n')) throw new Error(`not one data line: ${event}`);
    return JSON.parse(event.slice(6)) as unknown;
  });
}

/** Name and data of each event of a stream that names them. Throws when a line is neither `event:` nor `data:`. */
// oxlint-disable-next-line typescript/no-explicit-any -- as above
export function namedEvents(text: string): { readonly name: string; readonly data: any }[] {
  const events = text.split('\n\n');
  if (events.pop() !== '') throw new Error('a stream must end with a blank line');
  return events.map((event) => {
    const [, name, data] = /^event: (\S+)\ndata: (.*)$/u.exec(event) ?? [];
    if (name === undefined || data === undefined) throw new Error(`not a name and data: ${event}`);
    return { name, data: JSON.parse(data) as unknown };
  });
}

export async function waitFor<T>(what: string, read: () => T | undefined | false, deadlineMs = WAIT_LIMIT_MS): Promise<T> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    const value = read();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > endMs) throw new Error(`did not happen in time: ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
  }
}

export interface KvMessage {
  readonly topic: string;
  readonly seq: bigint;
  readonly ts: number;
  readonly rank: number;
  /** Generic decode: arrays or maps; 64-bit integers as bigint. */
  readonly events: readonly unknown[];
}

function toMessage(topic: Buffer, seq: Buffer, payload: Buffer): KvMessage {
  const [ts, events, rank] = decode(payload, { useBigInt64: true }) as [number, unknown[], number];
  return { topic: topic.toString(), seq: seq.readBigUInt64BE(), ts, rank, events };
}

export interface KvListener {
  readonly messages: readonly KvMessage[];
  /** All events so far, in order. */
  events(): unknown[];
  close(): void;
}

/** Subscribes; resolves once the subscription has certainly reached the publisher. */
export async function listen(instance: SimInstance, rank = 0): Promise<KvListener> {
  const config = instance.kvEvents;
  if (config === undefined) throw new Error('no KV events');
  const [, base, port] = /^(.*):(\d+)$/u.exec(config.endpoint) ?? [];
  const socket = new Subscriber({ linger: 0 });
  const connected = new Promise<void>((resolve) => {
    socket.events.on('handshake', () => resolve());
  });
  socket.connect(`${base ?? ''}:${Number(port) + rank}`);
  socket.subscribe(config.topic);
  const messages: KvMessage[] = [];
  const pump = async (): Promise<void> => {
    for await (const [topic, seq, payload] of socket) {
      if (topic !== undefined && seq !== undefined && payload !== undefined) messages.push(toMessage(topic, seq, payload));
    }
  };
  void pump();
  await connected;
  // The handshake is done, but the publisher reads the subscription a moment later: provoke events until one arrives.
  await waitForSubscription(instance, rank, messages);
  const skip = messages.length;
  return {
    get messages() {
      return messages.slice(skip);
    },
    events: () => messages.slice(skip).flatMap((message) => message.events),
    close: () => socket.close(),
  };
}

async function waitForSubscription(instance: SimInstance, rank: number, messages: readonly KvMessage[]): Promise<void> {
  for (let attempt = 0; messages.length === 0 && attempt < 200; attempt += 1) {
    await send(instance, '/reset_prefix_cache', { method: 'POST' });
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }
  if (messages.length === 0) throw new Error(`no subscription on rank ${rank}`);
  // Let what was provoked arrive, so that it is not taken for the test's own.
  await waitFor('provoked events', () => Number(messages.at(-1)?.seq) + 1 >= instance.publish.batches / (instance.kvEvents?.ranks ?? 1));
}

/** Asks the replay socket, as a DEALER with the delimiter, until the end marker. */
export async function replay(instance: SimInstance, start: bigint): Promise<KvMessage[]> {
  const endpoint = instance.kvEvents?.replayEndpoint;
  if (endpoint === undefined) throw new Error('no replay');
  const socket = new Dealer({ linger: 0, receiveTimeout: WAIT_LIMIT_MS });
  try {
    socket.connect(endpoint);
    const seq = Buffer.alloc(8);
    seq.writeBigUInt64BE(start);
    await socket.send(['', seq]);
    const messages: KvMessage[] = [];
    for (;;) {
      const frames = await socket.receive();
      if (frames.length !== 4) throw new Error(`expected 4 frames, got ${frames.length}`);
      const [, topic, number, payload] = frames as [Buffer, Buffer, Buffer, Buffer];
      if (payload.length === 0) return messages;
      messages.push(toMessage(topic, number, payload));
    }
  } finally {
    socket.close();
  }
}

/** About `words` tokens of prompt. */
export function prompt(words: number, start = 'the'): string {
  return start + ' river'.repeat(words - 1);
}
