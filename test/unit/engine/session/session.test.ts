import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Logger } from '#engine/log.ts';
import { createSession, type Session, type SessionOptions } from '#engine/session/session.ts';
import { tickerOf } from '#engine/session/ticker.ts';
import { ROW_INTERVAL_MS, STATE_INTERVAL_MS, type HostMessage } from '#shared/wire.ts';
import { fakeEngine, requestRow } from './fake-engine.ts';

/** A session whose peer writes down what it gets. `buffered` is what the peer has not read. */
function connect(options: SessionOptions = {}, engine = fakeEngine()) {
  const messages: HostMessage[] = [];
  const peer = { buffered: 0 };
  const session: Session = createSession(engine, { send: (message) => messages.push(message), bufferedBytes: () => peer.buffered }, options);
  const take = (): HostMessage[] => messages.splice(0);
  return { engine, session, peer, take };
}

const frames = (messages: readonly HostMessage[]) => messages.map((message) => ('seq' in message ? [message.t, message.sub, message.seq] : [message.t]));

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('session', () => {
  it('greets with protocol, version and host', () => {
    const { take } = connect();
    expect(take()).toEqual([{ t: 'hello', protocol: 1, version: '1.2.3', host: 'headless', isSimulated: false }]);
  });

  it('answers each call once: value, expected failure as it is, unexpected failure without its text', async () => {
    const errors: string[] = [];
    const logger: Logger = { debug() {}, info() {}, warn() {}, error: (_fields, message) => errors.push(message) };
    const { session, take } = connect({ logger });
    take();
    session.receive({ t: 'call', id: 1, op: 'state.get', input: {} });
    session.receive({ t: 'call', id: 2, op: 'policy.set', input: {} });
    session.receive({ t: 'call', id: 3, op: 'connector.set', input: {} });
    session.receive({ t: 'call', id: 4, op: 'no.such', input: {} });
    session.receive({ t: 'call', id: 5, op: '__proto__', input: {} });
    await vi.advanceTimersByTimeAsync(0);
    const answers = new Map(take().map((message) => [message.t === 'result' ? message.id : 0, message]));
    expect(answers.get(1)).toEqual({ t: 'result', id: 1, ok: true, value: { name: 'state.get', input: {} } });
    expect(answers.get(2)).toMatchObject({ ok: false, error: { code: 'bad_input', message: 'policy: no such policy' } });
    expect(answers.get(3)).toMatchObject({ ok: false, error: { code: 'internal' } });
    expect(JSON.stringify(answers.get(3))).not.toContain('42');
    expect(errors).toEqual(['unexpected failure: the secret is 42']);
    expect(answers.get(4)).toMatchObject({ ok: false, error: { code: 'unknown_operation' } });
    expect(answers.get(5)).toMatchObject({ ok: false, error: { code: 'unknown_operation' } });
    session.close();
  });

  it('refuses what is not a message at the address it came from, and survives anything', () => {
    const { session, take } = connect();
    take();
    session.receive({ t: 'call', id: 9, op: 'x'.repeat(100), input: {} });
    session.receive({ t: 'subscribe', sub: 3, channel: 'nothing' });
    for (const junk of [undefined, null, 1, 'text', [], { t: 'call' }, { t: 'hello' }]) session.receive(junk);
    expect(take()).toMatchObject([
      { t: 'result', id: 9, ok: false, error: { code: 'bad_message' } },
      { t: 'rejected', sub: 3, error: { code: 'bad_message' } },
    ]);
  });

  it('sends a snapshot, then deltas numbered without holes, and nothing when nothing happened', () => {
    const { engine, session, take } = connect();
    take();
    engine.requests.append(requestRow(1));
    session.receive({ t: 'subscribe', sub: 7, channel: 'requests' });
    engine.requests.append(requestRow(2));
    vi.advanceTimersByTime(ROW_INTERVAL_MS);
    vi.advanceTimersByTime(ROW_INTERVAL_MS);
    engine.requests.change(requestRow(2, { state: 'ok' }));
    vi.advanceTimersByTime(ROW_INTERVAL_MS);
    const got = take();
    expect(frames(got)).toEqual([['snapshot', 7, 1], ['delta', 7, 2], ['delta', 7, 3]]);
    expect(got[0]).toMatchObject({ skipped: 0, rows: [{ n: 1 }], counters: { total: 1, matching: 1 } });
    expect(got[2]).toMatchObject({ rows: [{ n: 2, state: 'ok' }], counters: { total: 2 } });
    session.close();
  });

  it('filters where the history lives', () => {
    const { engine, session, take } = connect();
    take();
    engine.requests.append(requestRow(1, { status: 200 }));
    engine.requests.append(requestRow(2, { status: 502 }));
    session.receive({ t: 'subscribe', sub: 1, channel: 'requests', filter: 'status:5xx' });
    expect(take()).toMatchObject([{ t: 'snapshot', rows: [{ n: 2 }], counters: { kept: 2, matching: 1 } }]);
    session.close();
  });

  it('rejects a filter that does not compile, in the words of the filter', () => {
    const { session, take } = connect();
    take();
    session.receive({ t: 'subscribe', sub: 1, channel: 'requests', filter: 'statsu:200' });
    expect(take()).toMatchObject([{ t: 'rejected', sub: 1, error: { code: 'bad_filter', message: expect.stringContaining('Did you mean status?') } }]);
  });

  it('skips a slow peer, counts it, and starts over with a snapshot when it has caught up', () => {
    const { engine, session, peer, take } = connect({ maxBufferedBytes: 1000 });
    take();
    session.receive({ t: 'subscribe', sub: 1, channel: 'requests' });
    take();
    peer.buffered = 1001;
    for (let n = 1; n <= 3; n += 1) {
      engine.requests.append(requestRow(n));
      vi.advanceTimersByTime(ROW_INTERVAL_MS);
    }
    expect(take()).toEqual([]);
    peer.buffered = 0;
    vi.advanceTimersByTime(ROW_INTERVAL_MS);
    const [snapshot] = take();
    expect(snapshot).toMatchObject({ t: 'snapshot', seq: 2, skipped: 3, rows: [{ n: 1 }, { n: 2 }, { n: 3 }] });
    session.close();
  });

  it('builds the state once per interval for all sessions, and not at all when nobody watches', () => {
    const engine = fakeEngine();
    const one = connect({}, engine);
    const two = connect({}, engine);
    one.session.receive({ t: 'subscribe', sub: 1, channel: 'state' });
    two.session.receive({ t: 'subscribe', sub: 1, channel: 'state' });
    const before = engine.states;
    vi.advanceTimersByTime(STATE_INTERVAL_MS * 4);
    expect(engine.states - before).toBe(4);
    one.session.receive({ t: 'unsubscribe', sub: 1 });
    two.session.close();
    expect(tickerOf(engine).isRunning).toBe(false);
    vi.advanceTimersByTime(STATE_INTERVAL_MS * 4);
    expect(engine.states - before).toBe(4);
  });

  it('bounds subscriptions and refuses a number twice', () => {
    const { session, take } = connect({ maxSubscriptions: 2 });
    take();
    for (const sub of [1, 1, 2, 3]) session.receive({ t: 'subscribe', sub, channel: 'state' });
    const rejected = take().filter((message) => message.t === 'rejected');
    expect(rejected).toMatchObject([
      { sub: 1, error: { code: 'duplicate_subscription' } },
      { sub: 3, error: { code: 'too_many_subscriptions' } },
    ]);
    session.close();
  });

  it('sends nothing after close, not even an answer that was under way', async () => {
    const { session, take } = connect();
    take();
    session.receive({ t: 'call', id: 1, op: 'state.get', input: {} });
    session.close();
    session.receive({ t: 'call', id: 2, op: 'state.get', input: {} });
    await vi.advanceTimersByTimeAsync(10);
    expect(take()).toEqual([]);
  });

  it('ends one subscription whose rows cannot be read, and tells the page', () => {
    const { engine, session, take } = connect();
    take();
    session.receive({ t: 'subscribe', sub: 1, channel: 'requests' });
    session.receive({ t: 'subscribe', sub: 2, channel: 'state' });
    take();
    engine.requests.changedSince = () => {
      throw new Error('broken');
    };
    engine.requests.append(requestRow(1));
    vi.advanceTimersByTime(STATE_INTERVAL_MS);
    const got = take();
    expect(got).toMatchObject([{ t: 'rejected', sub: 1, error: { code: 'internal' } }, { t: 'delta', sub: 2, channel: 'state' }]);
    session.close();
  });
});
