import net from 'node:net';

/** Below what systems give to outgoing connections (from 32768 on Linux, 49152 elsewhere), above what services like to have. */
const RANGE = { from: 20_000, to: 32_000 } as const;

/**
 * A port to try for `count` neighbouring ones. Not the neighbours of a port that the system chose: those are what outgoing
 * connections get, and each keeps its port for a minute after its end.
 */
export function neighbouringPorts(count: number): number {
  return RANGE.from + Math.floor(Math.random() * (RANGE.to - RANGE.from - count));
}

const TRIES = 50;

/**
 * A TCP port that nobody has now, for a socket that is bound later. Whoever needs it may find it taken then, which is told;
 * rare, because outgoing connections do not get it meanwhile. Throws what the system says when no port can be had.
 */
export async function freePort(host: string): Promise<number> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const port = neighbouringPorts(1);
    if ((await listenOnce(host, port)) !== undefined) return port;
  }
  const chosen = await listenOnce(host, 0);
  if (chosen === undefined) throw new Error(`no free port on ${host}`);
  return chosen;
}

/** The port, if it can be listened on now. */
function listenOnce(host: string, port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once('error', () => resolve(undefined));
    server.listen(port, host, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : undefined));
    });
  });
}
