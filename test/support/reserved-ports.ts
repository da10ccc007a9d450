/**
 * Ports that a test needs to know before anything listens there, or after it did. Each is this process's until it ends:
 * a UDP socket of the same number marks it for everyone who takes ports here, and it lies below those that systems give to
 * outgoing connections and to port 0, so nobody else gets it by chance in between.
 */
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

const HOST = '127.0.0.1';
/** Below what the simulator takes for itself (from 20,000) and what systems give away (from 32,768 or 49,152). */
const RANGE = { from: 10_000, to: 20_000 } as const;
const TRIES = 500;

/** A port on which nobody listens, and which nobody else takes. */
export function reservePort(): Promise<number> {
  return reservePorts(1);
}

/** The first of `count` neighbouring ports. Rejects when there is no room. */
export async function reservePorts(count: number): Promise<number> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const base = RANGE.from + Math.floor(Math.random() * (RANGE.to - RANGE.from - count));
    const ports = Array.from({ length: count }, (_, index) => base + index);
    let taken = 0;
    while (taken < count && (await mark(ports[taken] ?? 0)) && (await isFree(ports[taken] ?? 0))) taken += 1;
    if (taken === count) return base;
  }
  throw new Error(`found no ${count} free ports from ${RANGE.from} to ${RANGE.to}`);
}

/** The mark stays until the process ends, also when the port turns out not to be free. */
function mark(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4');
    socket.once('error', () => {
      socket.close();
      resolve(false);
    });
    socket.bind({ port, address: HOST, exclusive: true }, () => {
      socket.unref();
      resolve(true);
    });
  });
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: HOST, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
