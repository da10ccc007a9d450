import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EngineState } from '#shared/state.ts';
import type { ChannelData, ClientMessage, HostMessage } from '#shared/wire.ts';
import type { DuplexHandlers } from '../../../renderer/src/transport/duplex.ts';
import { SessionClient } from '../../../renderer/src/transport/session-client.ts';
import type { SubscriptionHandler } from '../../../renderer/src/transport/transport.ts';

const HELLO: HostMessage = { t: 'hello', protocol: 1, version: '0.1.0', host: 'headless', isSimulated: false };
const EMPTY = { rows: [], counters: { total: 0, kept: 0, evicted: 0, dropped: 0, matching: 0 }, omitted: 0 };

/** Every connection the client made, with what it sent. */
class FakeHost {
  readonly connections: { readonly handlers: DuplexHandlers; readonly sent: ClientMessage[]; isClosed: boolean }[] = [];
  readonly connect = (handlers: DuplexHandlers): { send: (message: ClientMessage) => void; close: () => void } => {
    const connection = { handlers, sent: [] as ClientMessage[], isClosed: false };
    this.connections.push(connection);
    return {
      send: (message) => connection.sent.push(message),
      close: () => {
        connection.isClosed = true;
      },
    };
  };
  get last(): (typeof this.connections)[number] {
    const connection = this.connections.at(-1);
    if (connection === undefined) throw new Error('no connection was made');
    return connection;
  }
  say(message: HostMessage): void {
    this.last.handlers.onMessage(message);
  }
  subscribed(): { readonly sub: number; readonly channel: string; readonly filter?: string }[] {
    return this.last.sent.filter((message) => message.t === 'subscribe').map(({ sub, channel, filter }) => ({ sub, channel, ...(filter !== undefined && { filter }) }));
  }
}

function recorder(): { readonly log: string[]; readonly handler: SubscriptionHandler<'requests'> } {
  const log: string[] = [];
  return {
    log,
    handler: {
      onSnapshot: (data: ChannelData['requests'], { skipped }) => log.push(`snapshot ${data.counters.total} skipped ${skipped}`),
      onDelta: (data) => log.push(`delta ${data.counters.total}`),
      onRejected: (error) => log.push(`rejected ${error.code}`),
      onStale: (why) => log.push(`stale ${why}`),
    },
  };
}

const rows = (total: number): ChannelData['requests'] => ({ ...EMPTY, counters: { ...EMPTY.counters, total } });

describe('SessionClient', () => {
  let host: FakeHost;
  let client: SessionClient;
  beforeEach(() => {
    vi.useFakeTimers();
    host = new FakeHost();
    client = new SessionClient(host.connect);
  });
  afterEach(() => {
    client.close();
    vi.useRealTimers();
  });

  it('is open only after hello', () => {
    expect(client.connection.get()).toEqual({ phase: 'connecting', attempt: 1 });
    host.say(HELLO);
    expect(client.connection.get()).toEqual({ phase: 'open', host: 'headless', version: '0.1.0', isSimulated: false });
  });

  it('refuses a host of another protocol and does not try again', () => {
    host.say({ ...HELLO, protocol: 2 });
    expect(client.connection.get()).toMatchObject({ phase: 'refused', reason: expect.stringContaining('protocol 1, the engine 2') as string });
    vi.advanceTimersByTime(60_000);
    expect(host.connections).toHaveLength(1);
  });

  it('matches results to calls by id, in any order', async () => {
    host.say(HELLO);
    const first = client.call('requests.clear', {});
    const second = client.call('kv.clear', {});
    const [one, two] = host.last.sent;
    expect(one).toMatchObject({ t: 'call', op: 'requests.clear', input: {} });
    if (one?.t !== 'call' || two?.t !== 'call') throw new Error('two calls were expected');
    host.say({ t: 'result', id: two.id, ok: true, value: { cleared: 2 } });
    host.say({ t: 'result', id: one.id, ok: false, error: { code: 'nope', message: 'because', retryable: false } });
    await expect(second).resolves.toEqual({ cleared: 2 });
    await expect(first).rejects.toMatchObject({ code: 'nope', message: 'because' });
  });

  it('fails a call that is not answered in time, and ignores the late answer', async () => {
    host.say(HELLO);
    const call = client.call('kv.clear', {}, { timeoutMs: 1000 });
    const outcome = call.catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await outcome).toMatchObject({ code: 'call_timeout' });
    const sent = host.last.sent[0];
    if (sent?.t === 'call') host.say({ t: 'result', id: sent.id, ok: true, value: { cleared: 1 } });
  });

  it('refuses calls without a connection and fails those in flight when it breaks', async () => {
    await expect(client.call('kv.clear', {})).rejects.toMatchObject({ code: 'not_connected' });
    host.say(HELLO);
    const call = client.call('kv.clear', {});
    host.last.handlers.onClose('gone');
    await expect(call).rejects.toMatchObject({ code: 'connection_lost' });
  });

  it('passes on a snapshot and the deltas that follow it without a hole', () => {
    const { log, handler } = recorder();
    client.subscribe('requests', { filter: 'role:decode', limit: 10 }, handler);
    expect(host.last.sent).toEqual([]);
    host.say(HELLO);
    const [{ sub } = { sub: -1 }] = host.subscribed();
    expect(host.last.sent).toEqual([{ t: 'subscribe', sub, channel: 'requests', filter: 'role:decode', limit: 10 }]);
    host.say({ t: 'snapshot', sub, channel: 'requests', seq: 7, skipped: 0, ...rows(1) });
    host.say({ t: 'delta', sub, channel: 'requests', seq: 8, ...rows(2) });
    host.say({ t: 'snapshot', sub, channel: 'requests', seq: 12, skipped: 3, ...rows(3) });
    host.say({ t: 'delta', sub, channel: 'requests', seq: 13, ...rows(4) });
    expect(log).toEqual(['snapshot 1 skipped 0', 'delta 2', 'snapshot 3 skipped 3', 'delta 4']);
  });

  it('subscribes anew on a hole and takes nothing from the abandoned subscription', () => {
    const { log, handler } = recorder();
    client.subscribe('requests', {}, handler);
    host.say(HELLO);
    const [first = { sub: -1 }] = host.subscribed();
    host.say({ t: 'snapshot', sub: first.sub, channel: 'requests', seq: 1, skipped: 0, ...rows(1) });
    host.say({ t: 'delta', sub: first.sub, channel: 'requests', seq: 3, ...rows(3) });
    const second = host.subscribed()[1];
    if (second === undefined) throw new Error('a second subscription was expected');
    expect(second.sub).not.toBe(first.sub);
    expect(host.last.sent).toContainEqual({ t: 'unsubscribe', sub: first.sub });
    host.say({ t: 'delta', sub: first.sub, channel: 'requests', seq: 4, ...rows(99) });
    host.say({ t: 'snapshot', sub: second.sub, channel: 'requests', seq: 0, skipped: 0, ...rows(5) });
    expect(log).toEqual(['snapshot 1 skipped 0', 'stale resync', 'snapshot 5 skipped 0']);
  });

  it('takes a delta before any snapshot for a hole', () => {
    const { log, handler } = recorder();
    client.subscribe('requests', {}, handler);
    host.say(HELLO);
    const [{ sub } = { sub: -1 }] = host.subscribed();
    host.say({ t: 'delta', sub, channel: 'requests', seq: 1, ...rows(1) });
    expect(log).toEqual(['stale resync']);
    expect(host.subscribed()).toHaveLength(2);
  });

  it('reconnects with growing delays and subscribes to everything again', () => {
    const { log, handler } = recorder();
    client.subscribe('requests', {}, handler);
    const states: EngineState[] = [];
    client.subscribe('state', {}, { onSnapshot: (data) => states.push(data.state), onDelta: () => {}, onRejected: () => {}, onStale: () => {} });
    host.say(HELLO);
    host.last.handlers.onClose('reset');
    expect(client.connection.get()).toMatchObject({ phase: 'waiting', attempt: 1, reason: 'reset' });
    vi.advanceTimersByTime(400);
    expect(host.connections).toHaveLength(2);
    host.last.handlers.onClose('refused');
    expect(client.connection.get()).toMatchObject({ phase: 'waiting', attempt: 2 });
    vi.advanceTimersByTime(300);
    expect(host.connections).toHaveLength(2);
    vi.advanceTimersByTime(400);
    expect(host.connections).toHaveLength(3);
    host.say(HELLO);
    expect(host.subscribed().map((one) => one.channel)).toEqual(['requests', 'state']);
    expect(log).toEqual(['stale disconnected']);
  });

  it('does not repeat a final close, but tries when asked', () => {
    host.last.handlers.onClose('not signed in', true);
    expect(client.connection.get()).toEqual({ phase: 'refused', reason: 'not signed in' });
    vi.advanceTimersByTime(60_000);
    expect(host.connections).toHaveLength(1);
    client.retryNow();
    expect(host.connections).toHaveLength(2);
  });

  it('tells a rejected subscription why and lets it rest', () => {
    const { log, handler } = recorder();
    client.subscribe('requests', { filter: 'x:' }, handler);
    host.say(HELLO);
    const [{ sub } = { sub: -1 }] = host.subscribed();
    host.say({ t: 'rejected', sub, error: { code: 'filter_invalid', message: 'x is not a field', retryable: false } });
    host.last.handlers.onClose('reset');
    vi.advanceTimersByTime(400);
    host.say(HELLO);
    expect(host.subscribed()).toEqual([]);
    expect(log).toEqual(['rejected filter_invalid']);
  });

  it('unsubscribes once', () => {
    const { handler } = recorder();
    const subscription = client.subscribe('requests', {}, handler);
    host.say(HELLO);
    subscription.close();
    subscription.close();
    expect(host.last.sent.filter((message) => message.t === 'unsubscribe')).toHaveLength(1);
  });
});
