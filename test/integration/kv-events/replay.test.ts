/** Replays over real sockets: both layouts, and everything that can go wrong with the other side. */
import { afterEach, describe, expect, it } from 'vitest';
import type { KvStreamView } from '#shared/kv.ts';
import { KvEvents, type KvEventsOptions } from '#engine/kv-events/kv-events.ts';
import { P0, TestPublisher, config, freePort, indexed, stored, until } from './publisher.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';
import { ScriptedEngine, enginePorts } from './scripted-engine.ts';

const open: KvEvents[] = [];

/** For sockets that say nothing: nothing may be lost by its being short. */
const SILENCE_MS = 300;
/** For sockets that answer and then stop: on a slow machine too, their answers come sooner. */
const PAUSE_MS = 3000;

function kvEvents(options: Partial<KvEventsOptions> = {}): KvEvents {
  const events = new KvEvents({ ...indexed(), replayTimeoutMs: WAIT_LIMIT_MS, ...options });
  open.push(events);
  return events;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((events) => events.close()));
});

function view(events: KvEvents): KvStreamView {
  const [stream] = events.streams();
  if (stream === undefined) throw new Error('no stream');
  return stream;
}

const storedRows = (events: KvEvents): string[] => Array.from(events.log.rows()).flatMap((row) => (row.kind === 'stored' ? [`${row.epoch}:${row.seq ?? '-'}`] : []));
const notes = (events: KvEvents): string[] => Array.from(events.log.rows()).flatMap((row) => (row.note === undefined ? [] : [`${row.kind}: ${row.note}`]));

describe.each(['topic', 'bare'] as const)('in the %s layout', (layout) => {
  it('reads what was sent before, and what a gap missed', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started({ ...ports, layout });
    for (let hash = 0; hash < 5; hash += 1) await engine.publish(hash);
    const events = kvEvents();
    events.attach(P0, config({ endpoint, replayEndpoint }));
    await until(() => view(events).batches === 5 && view(events).replay?.state === 'idle', 'history');
    expect(view(events)).toMatchObject({ state: 'live', sawStart: true, lastSeq: 4, gaps: 0, confidence: 1 });
    await engine.subscribed();
    await engine.publish(5, { isMissed: true });
    await engine.publish(6, { isMissed: true });
    await engine.publish(7);
    // The live batch that showed the gap comes again last.
    await until(() => view(events).batches === 8 && view(events).duplicateBatches > 0, 'the gap');
    expect(engine.questions).toEqual([0, 4]);
    expect(storedRows(events)).toEqual(['1:0', '1:1', '1:2', '1:3', '1:4', '1:5', '1:6', '1:7']);
    expect(view(events)).toMatchObject({ gaps: 1, gapsFilled: 1, missedBatches: 2, missedFilled: 2, missedLost: 0, duplicateBatches: 1, replay: { state: 'idle', layout, asked: 2, failed: 0, batches: 8 } });
  });

  it('knows from an end marker alone that the engine has nothing', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started({ ...ports, layout });
    const events = kvEvents();
    events.attach(P0, config({ endpoint, replayEndpoint }));
    await until(() => view(events).replay?.layout === layout && view(events).replay?.state === 'idle', 'the end marker');
    expect(view(events)).toMatchObject({ state: 'silent', epochs: 1, sawStart: true, confidence: 1, replay: { asked: 1, batches: 0 } });
    await engine.subscribed();
    // The first batch is missed: that is a gap now, where a late join would have hidden it.
    await engine.publish(0, { isMissed: true });
    await engine.publish(1);
    await until(() => view(events).batches === 2, 'both');
    expect(view(events)).toMatchObject({ gaps: 1, missedFilled: 1 });
  });
});

describe('a replay socket', () => {
  it('that nobody listens on delays first contact once, and no gap', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const replayEndpoint = `tcp://127.0.0.1:${await freePort()}`;
    const events = kvEvents({ replayTimeoutMs: SILENCE_MS });
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}`, replayEndpoint }));
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(7, [stored(1)]);
    await until(() => view(events).batches === 1, 'the first batch, in the end');
    expect(view(events).replay).toMatchObject({ state: 'failed', endpoint: replayEndpoint, asked: 1, failed: 1 });
    expect(view(events).replay?.reason).toContain(`nobody answered at ${replayEndpoint} within ${SILENCE_MS} ms`);
    expect(view(events).replay?.retryAtUnixMs).toBeGreaterThan(Date.now());
    await publisher.batch(9, [stored(2)]);
    await publisher.batch(12, [stored(3)]);
    await until(() => view(events).batches === 3, 'gaps');
    expect(view(events)).toMatchObject({ gaps: 2, missedLost: 3, missedFilled: 0, replay: { asked: 1 }, coverage: { applied: 3, unseen: 7, lost: 3 } });
    expect(view(events).reasons?.map(({ code }) => code).toSorted()).toEqual(['batches-lost', 'joined-late', 'lagging']);
    expect(Array.from(events.log.rows(), ({ kind }) => kind)).toEqual(['error', 'stored', 'gap', 'stored', 'gap', 'stored']);
  });

  it('that answers under another topic than is subscribed to gives the mistake away', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started({ ...ports, topic: 'kv@p1' });
    for (let hash = 0; hash < 3; hash += 1) await engine.publish(hash);
    const events = kvEvents();
    events.attach(P0, config({ endpoint, replayEndpoint, topic: 'kv@p0' }));
    await until(() => view(events).batches === 3 && view(events).state === 'live', 'history');
    expect(view(events).stateReason).toBe('the replay socket answers under topic "kv@p1", and only "kv@p0" is subscribed to: what is published there does not arrive');
  });

  it('that cannot be right for a rank costs the replays, not the stream', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}`, replayEndpoint: 'tcp://127.0.0.1' }));
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(0, [stored(1)]);
    await until(() => view(events).batches === 1, 'batch');
    expect(view(events).replay).toMatchObject({ state: 'failed', reason: expect.stringContaining('a port is missing') as string });
  });

  it('that dies in the middle leaves what it gave; the next life is asked anew', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    const events = kvEvents({ replayTimeoutMs: PAUSE_MS });
    {
      await using engine = await ScriptedEngine.started(ports);
      events.attach(P0, config({ endpoint, replayEndpoint }));
      await until(() => view(events).replay?.layout !== undefined && view(events).replay?.state === 'idle', 'first contact');
      await engine.subscribed();
      for (let hash = 0; hash < 4; hash += 1) await engine.publish(hash, { isMissed: true });
      engine.stopsAfter = 2;
      await engine.publish(4);
      await until(() => view(events).lastSeq === 4, 'the batch behind the gap');
      expect(storedRows(events)).toEqual(['1:0', '1:1', '1:4']);
      expect(view(events)).toMatchObject({ gaps: 1, gapsFilled: 0, missedFilled: 2, missedLost: 2, replay: { state: 'failed' } });
      expect(notes(events).slice(1)).toEqual([
        'filled: 2 of 4 missing batches (0 to 3) came by replay',
        `lost: 2 of 4 missing batches (0 to 3) are lost: ${replayEndpoint} stopped answering before the end of the replay`,
      ]);
    }
    await until(() => view(events).state === 'lost', 'the end of the engine');
    // The new life has sent more than the old one before anybody listens: its numbers look as if nothing had happened.
    await using next = await ScriptedEngine.started(ports);
    for (let hash = 10; hash < 18; hash += 1) await next.publish(hash);
    await until(() => view(events).epochs === 2 && view(events).lastSeq === 7, 'the new life');
    expect(storedRows(events).slice(3)).toEqual(['2:0', '2:1', '2:2', '2:3', '2:4', '2:5', '2:6', '2:7']);
    expect(view(events)).toMatchObject({ sawStart: true, confidence: 1, resident: [{ medium: 'GPU', blocks: 8 }], replay: { state: 'idle' } });
  });

  it('of another engine is found out by the first gap, and nothing of it is applied', async () => {
    const { endpoint, ...ports } = await enginePorts();
    const other = await enginePorts();
    const events = kvEvents({ replayTimeoutMs: PAUSE_MS });
    await using engine = await ScriptedEngine.started(ports);
    await using foreign = await ScriptedEngine.started({ ...other, stopsAfter: 0 });
    for (let hash = 50; hash < 60; hash += 1) await foreign.publish(hash);
    events.attach(P0, config({ endpoint, replayEndpoint: other.replayEndpoint }));
    await until(() => view(events).replay?.state === 'failed', 'silence');
    await engine.subscribed();
    await engine.publish(0);
    await until(() => view(events).batches === 1, 'a batch');
    foreign.stopsAfter = Number.POSITIVE_INFINITY;
    events.detach(P0.id);
    events.attach(P0, config({ endpoint, replayEndpoint: other.replayEndpoint }));
    await until(() => view(events).replay?.state === 'idle' && view(events).lastSeq === 9, 'the wrong history');
    await engine.subscribed(2);
    await engine.publish(1);
    for (let hash = 2; hash < 12; hash += 1) await engine.publish(hash, { isMissed: true });
    await engine.publish(12);
    await until(() => view(events).replay?.state === 'failed', 'the truth');
    expect(view(events).replay?.reason).toMatch(/answers for another engine|is it this stream's replay socket/);
    await until(() => view(events).lastSeq === 12, 'the last batch');
    const hashes = Array.from(events.log.rows()).flatMap((row) => (row.epoch === view(events).epochs && row.kind === 'stored' ? row.hashes : []));
    expect(hashes.every((hash) => Number.parseInt(hash, 16) < 50)).toBe(true);
  });

  it('that never ends is let go when the stream is closed', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started({ ...ports, stopsAfter: 3 });
    for (let hash = 0; hash < 10; hash += 1) await engine.publish(hash);
    const events = kvEvents();
    events.attach(P0, config({ endpoint, replayEndpoint }));
    await until(() => view(events).batches === 3, 'a part');
    expect(view(events).replay?.state).toBe('asking');
    await events.close();
    expect(events.streams()).toEqual([]);
  });
});

describe('a flood through a small queue', () => {
  it('is complete in the end: what the queue refuses comes by replay', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started(ports);
    const events = kvEvents({ queueLimit: { messages: 200, bytes: 1e6 } });
    events.attach(P0, config({ endpoint, replayEndpoint }));
    await until(() => view(events).state === 'silent', 'connection');
    await engine.subscribed();
    for (let hash = 0; hash < 5000; hash += 1) await engine.publish(hash);
    await until(async () => {
      const last = await engine.publish(1);
      return (view(events).lastSeq ?? 0) >= 5000 && view(events).lastSeq === last - 1;
    }, 'the end');
    const { batches, lastSeq, missedLost, missedBatches, missedFilled } = view(events);
    expect(batches).toBe((lastSeq ?? 0) + 1);
    expect({ missedLost, missedFilled }).toEqual({ missedLost: 0, missedFilled: missedBatches });
    expect(view(events).droppedMessages).toBeGreaterThan(0);
  });
});
