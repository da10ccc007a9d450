/**
 * HTTP/1.1 at socket level, for the two ends of the benchmark: a server and a client that cost so little that what is
 * measured is the proxy between them. They understand exactly what the benchmark sends: Content-Length bodies in
 * requests, Content-Length or chunked bodies in answers, keep-alive.
 */
import net from 'node:net';
import type { AddressInfo } from 'node:net';

const HEAD_END = Buffer.from('\r\n\r\n');
const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;
const CHUNKED = /\r\ntransfer-encoding: *chunked/i;
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

/** Answers one request by writing to `socket`. `head` is the request's head, latin1. */
export type RawHandler = (head: string, socket: net.Socket) => void;

/** Starts a server on a loopback port (0: any free one) that calls `handler` once per complete request. */
export async function startRawServer(port: number, handler: RawHandler): Promise<{ readonly url: string; close(): Promise<void> }> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    let pending: Buffer = Buffer.alloc(0);
    socket.on('data', (data) => {
      pending = pending.length === 0 ? data : Buffer.concat([pending, data]);
      for (;;) {
        const end = pending.indexOf(HEAD_END);
        if (end === -1) return;
        const head = pending.toString('latin1', 0, end + 2);
        const total = end + 4 + Number(CONTENT_LENGTH.exec(head)?.[1] ?? 0);
        if (pending.length < total) return;
        pending = pending.subarray(total);
        handler(head, socket);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', 4096, resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

export interface RawAnswer {
  readonly status: number;
  readonly bytes: number;
  /** From writing the request to the first byte of the answer's body, ms; of its head when there is no body. */
  readonly firstBodyMs: number;
}

/** One keep-alive connection that carries one request at a time. */
export class RawClient {
  readonly #socket: net.Socket;
  #onData: ((data: Buffer) => void) | undefined;
  #onFail: ((error: Error) => void) | undefined;

  private constructor(socket: net.Socket) {
    this.#socket = socket;
    socket.on('data', (data) => this.#onData?.(data));
    const fail = (error?: Error): void => this.#onFail?.(error ?? new Error('connection closed'));
    socket.on('error', fail);
    socket.on('close', () => fail());
  }

  static async connect(url: string): Promise<RawClient> {
    const { hostname, port } = new URL(url);
    const socket = net.connect({ host: hostname, port: Number(port), noDelay: true });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return new RawClient(socket);
  }

  /**
   * Sends `request` (complete bytes) and resolves when the answer is complete.
   * `onChunk` sees each piece of the answer as it arrives, head and chunk framing included.
   */
  async send(request: Buffer, onChunk?: (data: Buffer, atMs: number) => void): Promise<RawAnswer> {
    return await new Promise<RawAnswer>((resolve, reject) => {
      const startedMs = performance.now();
      let firstBodyMs = 0;
      let status = 0;
      let bytes = 0;
      let remaining = -1;
      let isChunked = false;
      let tail: Buffer = Buffer.alloc(0);
      const finish = (): void => {
        this.#onData = undefined;
        this.#onFail = undefined;
        resolve({ status, bytes, firstBodyMs: firstBodyMs === 0 ? performance.now() - startedMs : firstBodyMs });
      };
      this.#onFail = reject;
      this.#onData = (data) => {
        const nowMs = performance.now();
        bytes += data.length;
        onChunk?.(data, nowMs);
        let body = data;
        if (status === 0) {
          tail = tail.length === 0 ? data : Buffer.concat([tail, data]);
          const end = tail.indexOf(HEAD_END);
          if (end === -1) return;
          const head = tail.toString('latin1', 0, end + 2);
          status = Number(head.slice(9, 12));
          isChunked = CHUNKED.test(head);
          body = tail.subarray(end + 4);
          tail = Buffer.alloc(0);
          if (!isChunked) remaining = Number(CONTENT_LENGTH.exec(head)?.[1] ?? 0);
        }
        if (firstBodyMs === 0 && body.length > 0) firstBodyMs = nowMs - startedMs;
        if (isChunked) {
          tail = body.length >= LAST_CHUNK.length ? body.subarray(-LAST_CHUNK.length) : Buffer.concat([tail, body]).subarray(-LAST_CHUNK.length);
          if (tail.equals(LAST_CHUNK)) finish();
          return;
        }
        remaining -= body.length;
        if (remaining <= 0) finish();
      };
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#onFail = undefined;
    this.#socket.destroy();
  }
}

/** The bytes of one POST with a JSON body. */
export function postBytes(path: string, body: unknown): Buffer {
  const json = JSON.stringify(body);
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
  );
}
