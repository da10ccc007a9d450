import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { createEngine, type Engine } from '#engine/engine.ts';
import type { ClientMessage, DeltaMessage, HostMessage, SnapshotMessage } from '#shared/wire.ts';
import { startControlServer, type ControlServer } from '../../../electron/headless/control-server.ts';
import { waitFor } from '../engine/wait-for.ts';

type Frame = SnapshotMessage | DeltaMessage;

/** A page's socket that writes down what it gets. */
async function openPage(control: ControlServer) {
  const socket = new WebSocket(`ws://127.0.0.1:${control.port}/api/session`, { headers: { authorization: `Bearer ${control.apiToken}` } });
  const messages: HostMessage[] = [];
  socket.on('message', (data) => messages.push(JSON.parse((data as Buffer).toString('utf8')) as HostMessage));
  await waitFor('the session says hello', () => messages.length > 0);
  return {
    messages,
    send: (message: ClientMessage) => socket.send(JSON.stringify(message)),
    frames: (sub: number): readonly Frame[] => messages.filter((message): message is Frame => 'seq' in message && message.sub === sub),
    close: () => socket.close(),
  };
}

describe('a session over a running engine', () => {
  let engine: Engine;
  let control: ControlServer;
  beforeAll(async () => {
    engine = await createEngine({ version: 'test', host: 'headless', proxy: { port: 0 }, demo: { prefill: 1, decode: 1, requestsPerSecond: 30 } });
    control = await startControlServer({ engine, rendererDir: '/nonexistent', version: 'test', port: 0 });
  });
  afterAll(async () => {
    await control.close();
    await engine.close();
  });

  it('shows state, requests and KV events without a hole, each with counters of its own instant', async () => {
    const page = await openPage(control);
    expect(page.messages[0]).toMatchObject({ t: 'hello', host: 'headless', isSimulated: true });
    page.send({ t: 'subscribe', sub: 1, channel: 'state' });
    page.send({ t: 'subscribe', sub: 2, channel: 'requests' });
    page.send({ t: 'subscribe', sub: 3, channel: 'kv' });
    await waitFor('each channel has sent several frames', () => [1, 2, 3].every((sub) => page.frames(sub).length >= 5));
    for (const sub of [1, 2, 3]) {
      const frames = page.frames(sub);
      expect(frames.map(({ t }) => t)).toEqual(['snapshot', ...frames.slice(1).map(() => 'delta')]);
      expect(frames.map(({ seq }) => seq)).toEqual(frames.map((_, index) => index + 1));
    }
    const kvNumbers = page.frames(3).flatMap((frame) => (frame.channel === 'kv' ? frame.rows.map(({ n }) => n) : []));
    expect(kvNumbers).toEqual(kvNumbers.map((_, index) => (kvNumbers[0] ?? 0) + index));
    for (const frame of page.frames(2)) expect(frame).toMatchObject({ counters: { evicted: 0, dropped: 0 }, omitted: 0 });
    page.close();
  });

  it('keeps a page with `state:running` to exactly what runs', async () => {
    const page = await openPage(control);
    page.send({ t: 'subscribe', sub: 1, channel: 'requests', filter: 'state:running' });
    const shown = new Map<number, string>();
    let applied = 0;
    const apply = (): void => {
      for (const frame of page.frames(1).slice(applied)) {
        applied += 1;
        if (frame.channel !== 'requests') continue;
        for (const row of frame.rows) shown.set(row.n, row.state);
        for (const n of frame.unmatched ?? []) shown.delete(n);
        expect(shown.size).toBe(frame.counters.matching);
        expect(Array.from(shown.values()).every((state) => state === 'running')).toBe(true);
      }
    };
    await waitFor('requests came and went', () => {
      apply();
      return applied > 20;
    });
    page.close();
  });

  it('gives a page that was cut off a full picture again', async () => {
    const first = await openPage(control);
    first.send({ t: 'subscribe', sub: 1, channel: 'requests' });
    await waitFor('a snapshot', () => first.frames(1).length > 0);
    first.close();
    await waitFor('the session is gone', () => control.sessions() === 0);
    await waitFor('more requests than the page asks for', () => engine.state().totals.received > 3);
    const second = await openPage(control);
    second.send({ t: 'subscribe', sub: 1, channel: 'requests', limit: 3 });
    const snapshot = await waitFor('a new snapshot', () => second.frames(1)[0]);
    expect(snapshot).toMatchObject({ t: 'snapshot', skipped: 0, rows: { length: 3 } });
    second.close();
  });
});
