/** An engine that answers probes and publishes KV-event batches at a given rate on a real PUB socket. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { encode } from '@msgpack/msgpack';
import { XPublisher } from 'zeromq';

export interface FloodingEngine extends AsyncDisposable {
  /** host:port of its HTTP side. */
  readonly address: string;
  readonly endpoint: string;
  /** Publishes `perSecond` batches a second, one stored block each, for `seconds`, once somebody subscribed. Answers how many. */
  flood(perSecond: number, seconds: number): Promise<number>;
}

const TOKENS = Array.from({ length: 16 }, (_, index) => 1000 + index);
const GOLDEN_RATIO_64 = 0x9e37_79b9_7f4a_7c15n;
const TURN_MS = 5;

function payload(seq: number): Uint8Array {
  const hash = BigInt.asUintN(64, BigInt(seq + 1) * GOLDEN_RATIO_64);
  const stored = { type: 'BlockStored', block_hashes: [hash], parent_block_hash: null, token_ids: TOKENS, block_size: 16, lora_id: null, medium: 'GPU', lora_name: null };
  return encode([Date.now() / 1000, [stored], 0], { useBigInt64: true });
}

/** Starts the engine; `model` is what it says it serves. */
export async function startFloodingEngine(model: string): Promise<FloodingEngine> {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    if (request.url === '/v1/models') response.end(JSON.stringify({ object: 'list', data: [{ id: model, object: 'model' }] }));
    else if (request.url === '/version') response.end(JSON.stringify({ version: '0.0.0-flood' }));
    else response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = new XPublisher({ linger: 0, sendHighWaterMark: 0 });
  await socket.bind('tcp://127.0.0.1:*');
  // What is sent before the subscription is here goes to nobody.
  const subscribed = socket.receive();
  let seq = 0;
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    endpoint: socket.lastEndpoint ?? '',
    flood: async (perSecond, seconds) => {
      await subscribed;
      const first = seq;
      const startedMs = performance.now();
      while (seq - first < perSecond * seconds) {
        const due = first + Math.min(perSecond * seconds, Math.floor(((performance.now() - startedMs) / 1000) * perSecond));
        for (; seq < due; seq += 1) {
          const frame = Buffer.alloc(8);
          frame.writeBigUInt64BE(BigInt(seq));
          await socket.send(['', frame, payload(seq)]);
        }
        await new Promise((resolve) => {
          setTimeout(resolve, TURN_MS);
        });
      }
      return seq - first;
    },
    [Symbol.asyncDispose]: async () => {
      socket.close();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
