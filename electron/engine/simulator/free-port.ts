import net from 'node:net';

/** A TCP port that nobody has now. Whoever needs it later may find it taken, which is rare and then told. */
export function freePort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.once('error', reject);
    server.listen(0, host, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

/** Below what systems give to outgoing connections (from 32768 on Linux, 49152 elsewhere), above what services like to have. */
const RANGE = { from: 20_000, to: 32_000 } as const;

/**
 * A port to try for `count` neighbouring ones. Not the neighbours of a port that the system chose: those are what outgoing
 * connections get, and each keeps its port for a minute after its end.
 */
export function neighbouringPorts(count: number): number {
  return RANGE.from + Math.floor(Math.random() * (RANGE.to - RANGE.from - count));
}
