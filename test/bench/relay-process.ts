/**
 * Passes bytes on between sockets and does nothing else: what any process between client and engines adds on this
 * machine at this moment. One listener for each `host:port` in the arguments; says where they are.
 */
import net from 'node:net';
import type { AddressInfo } from 'node:net';

const listeners = await Promise.all(process.argv.slice(2).map(async (target) => {
  const [host = '', port = ''] = target.split(':');
  const server = net.createServer({ noDelay: true }, (client) => {
    const upstream = net.connect({ host, port: Number(port), noDelay: true });
    for (const [from, to] of [[client, upstream], [upstream, client]] as const) {
      from.on('data', (data) => to.write(data));
      from.on('close', () => to.destroy());
      from.on('error', () => to.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', 4096, resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}));
process.send?.(listeners);
process.once('disconnect', () => process.exit(0));
