/** Servers that answer helper routes, as instances of a fleet. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach } from 'vitest';
import type { Instance } from '#engine/fleet/instance.ts';
import { InstanceIdSchema } from '#shared/ids.ts';

export interface FakeAnswer {
  readonly status?: number;
  readonly text: string;
}

/** `path`: of the request; `json`: its body. */
export type Handle = (json: Readonly<Record<string, unknown>>, path: string) => FakeAnswer | Promise<FakeAnswer>;

/** What is closed after the test, the last first. */
export const closers: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** `asked` gets a line `<name> <path>` for each request. */
export async function engineNamed(name: string, handle: Handle, asked: string[] = [], models: readonly string[] = ['m']): Promise<Instance> {
  const server: Server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const path = request.url ?? '';
      asked.push(`${name} ${path}`);
      const json = JSON.parse(Buffer.concat(parts).toString()) as Readonly<Record<string, unknown>>;
      void Promise.resolve(handle(json, path)).then(({ status = 200, text }) => response.writeHead(status).end(text));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const instance: Pick<Instance, 'id' | 'name' | 'role' | 'state' | 'origin' | 'models' | 'inFlight'> = {
    id: InstanceIdSchema.parse(name.toLowerCase()), name, role: 'prefill', state: 'up', origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, models, inFlight: 0,
  };
  return instance as Instance;
}
