/** What one SUB socket makes of whoever answers at its endpoint. */
import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { Router } from 'zeromq';
import { IntakeTurn } from '#engine/kv-events/intake-turn.ts';
import { SubSocket, type SocketPhase } from '#engine/kv-events/sub-socket.ts';
import { TestPublisher, freePort, stored, until } from './publisher.ts';

interface Opened extends AsyncDisposable {
  /** Every phase with its reason, as it was told. */
  readonly told: (readonly [SocketPhase, string | undefined])[];
  readonly messages: (readonly Uint8Array[])[];
}

function opened(endpoint: string): Opened {
  const told: (readonly [SocketPhase, string | undefined])[] = [];
  const messages: (readonly Uint8Array[])[] = [];
  const socket = new SubSocket({
    endpoint, mode: 'connect', topic: '', intake: new IntakeTurn(),
    onMessage: (frames) => messages.push(frames), onPhase: (phase, reason) => told.push([phase, reason]),
  });
  socket.open();
  return { told, messages, [Symbol.asyncDispose]: () => socket.close() };
}

const noPublisher = (endpoint: string): string => `${endpoint} accepts connections but is no KV-event publisher (the replay port or the HTTP port, perhaps?); trying again`;

it('says when another ZeroMQ socket answers, and follows an engine that takes its place', async () => {
  const endpoint = `tcp://127.0.0.1:${await freePort()}`;
  const router = new Router({ linger: 0 });
  await router.bind(endpoint);
  await using socket = opened(endpoint);
  await until(() => socket.told.some(([, reason]) => reason === noPublisher(endpoint)), 'a reason');
  expect(socket.told.every(([phase]) => phase === 'connecting')).toBe(true);
  router.close();
  await using publisher = await TestPublisher.bound(endpoint);
  await until(() => socket.told.at(-1)?.[0] === 'connected', 'connection');
  await publisher.batch(0, [stored(1)]);
  await until(() => socket.messages.length === 1, 'a batch');
});

it('says one thing when a web server answers, and follows an engine that takes its place', async () => {
  let connections = 0;
  const server = createServer((connection) => {
    connections += 1;
    connection.on('error', () => connection.destroy());
    connection.on('data', () => connection.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n'));
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const endpoint = `tcp://127.0.0.1:${port}`;
  await using socket = opened(endpoint);
  await until(() => connections >= 3, 'attempts');
  expect(new Set(socket.told.map(([phase, reason]) => `${phase}: ${reason ?? ''}`))).toEqual(new Set(['connecting: ', `connecting: ${noPublisher(endpoint)}`]));
  await new Promise((resolve) => server.close(resolve));
  await using publisher = await TestPublisher.bound(endpoint);
  await until(() => socket.told.at(-1)?.[0] === 'connected', 'connection');
  await publisher.batch(0, [stored(1)]);
  await until(() => socket.messages.length === 1, 'a batch');
});
