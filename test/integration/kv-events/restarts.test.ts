/** Restarts told in every way that a subscriber can be told, and what only looks like one. */
import { afterEach, describe, expect, it } from 'vitest';
import type { KvStreamView } from '#shared/kv.ts';
import { KvEvents } from '#engine/kv-events/kv-events.ts';
import { P0, TestPublisher, config, freePort, indexed, stored, until } from './publisher.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';
import { ScriptedEngine, enginePorts } from './scripted-engine.ts';

const open: KvEvents[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((events) => events.close()));
});

function kvEvents(): KvEvents {
  const events = new KvEvents({ ...indexed(), replayTimeoutMs: WAIT_LIMIT_MS });
  open.push(events);
  return events;
}

function view(events: KvEvents): KvStreamView {
  const [stream] = events.streams();
  if (stream === undefined) throw new Error('no stream');
  return stream;
}

const doubts = (events: KvEvents): readonly string[] => (view(events).reasons ?? []).map(({ code }) => code).filter((code) => code !== 'lagging');
const restarts = (events: KvEvents): string[] => Array.from(events.log.rows()).flatMap(({ kind, note }) => (kind === 'restart' ? [note ?? ''] : []));
/** An old clock and a new one, seconds. */
const OLD = 1000;
const NEW = 2000;

describe('an engine that starts anew', () => {
  it('and is heard again in the middle of its new life has missed the beginning of it', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    await using publisher = await TestPublisher.bound(endpoint);
    const events = kvEvents();
    events.attach(P0, config({ endpoint }));
    await until(() => view(events).state === 'silent', 'connection');
    for (let seq = 0; seq < 10; seq += 1) await publisher.batch(seq, [stored(seq)], { ts: OLD + seq });
    await publisher.batch(4, [stored(50)], { ts: NEW });
    await until(() => view(events).epochs === 2, 'the new life');
    expect(view(events)).toMatchObject({ lastSeq: 4, gaps: 1, missedLost: 4, resident: [{ medium: 'GPU', blocks: 1 }], coverage: { applied: 1, lost: 4, unseen: 0 } });
    expect(restarts(events)).toEqual(['sequence went back from 9 to 4 and its clock is newer: the engine started anew, its blocks are gone']);
  });

  it('while nobody listens, and its clock went back, is told by the new connection', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    const events = kvEvents();
    {
      await using publisher = await TestPublisher.bound(endpoint);
      events.attach(P0, config({ endpoint }));
      await until(() => view(events).state === 'silent', 'connection');
      for (let seq = 0; seq < 5; seq += 1) await publisher.batch(seq, [stored(seq)], { ts: NEW + seq });
      await until(() => view(events).lastSeq === 4, 'the old life');
    }
    await until(() => view(events).state === 'lost', 'its end');
    await using next = await TestPublisher.bound(endpoint);
    await until(() => view(events).state === 'live', 'the connection to the new one');
    await next.batch(0, [stored(50)], { ts: OLD });
    await until(() => view(events).epochs === 2, 'the new life');
    expect(view(events)).toMatchObject({ lastSeq: 0, resident: [{ medium: 'GPU', blocks: 1 }], sawStart: true });
    expect(doubts(events)).toEqual([]);
  });

  it('and has passed the old sequence unheard cannot be told without a replay: the confidence says so, until the cache is cleared', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    const events = kvEvents();
    {
      await using publisher = await TestPublisher.bound(endpoint);
      events.attach(P0, config({ endpoint }));
      await until(() => view(events).state === 'silent', 'connection');
      for (let seq = 0; seq < 3; seq += 1) await publisher.batch(seq, [stored(seq)], { ts: OLD + seq });
      await until(() => view(events).lastSeq === 2, 'the old life');
    }
    await until(() => view(events).state === 'lost', 'its end');
    await using next = await TestPublisher.bound(endpoint);
    await until(() => view(events).state === 'live', 'the connection to the new one');
    await next.batch(7, [stored(50)], { ts: NEW });
    await until(() => view(events).lastSeq === 7, 'a batch of it');
    expect(view(events)).toMatchObject({ epochs: 1, missedLost: 4 });
    expect(doubts(events)).toEqual(['batches-lost', 'life-uncertain']);
    await next.batch(8, [['AllBlocksCleared']], { ts: NEW + 1 });
    await until(() => view(events).lastSeq === 8, 'the reset');
    expect(doubts(events)).toEqual([]);
  });

  it('is not suspected of it when a replay says that it did not', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    const other = await enginePorts();
    const events = kvEvents();
    // One engine; its publishing socket goes away and comes back, its replay socket and buffer stay.
    await using engine = await ScriptedEngine.started({ pubPort: other.pubPort, replayPort: ports.replayPort, bufferSteps: 4 });
    {
      await using publisher = await TestPublisher.bound(endpoint);
      events.attach(P0, config({ endpoint, replayEndpoint }));
      await until(() => view(events).replay?.state === 'idle' && view(events).state === 'silent', 'connection');
      for (let seq = 0; seq < 3; seq += 1) {
        await engine.publish(seq);
        await publisher.send(engine.framesOf(seq));
      }
      await until(() => view(events).lastSeq === 2, 'the first batches');
    }
    await until(() => view(events).state === 'lost', 'its end');
    for (let seq = 3; seq < 6; seq += 1) await engine.publish(seq);
    await using again = await TestPublisher.bound(endpoint);
    await until(() => view(events).lastSeq === 5, 'what was sent meanwhile');
    await engine.publish(6);
    await again.send(engine.framesOf(6));
    await until(() => view(events).lastSeq === 6, 'a live batch');
    expect(view(events)).toMatchObject({ epochs: 1, gaps: 0, missedLost: 0, resident: [{ medium: 'GPU', blocks: 7 }] });
    expect(doubts(events)).toEqual([]);
  });

  it('as another version shows its own encoding, not a mixture', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    await using publisher = await TestPublisher.bound(endpoint);
    const events = kvEvents();
    events.attach(P0, config({ endpoint }));
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(0, [stored(1)], { ts: OLD });
    await until(() => view(events).encoding === 'array', 'the old encoding');
    const named = { type: 'BlockStored', block_hashes: [Buffer.alloc(32, 7)], parent_block_hash: null, token_ids: [1, 2], block_size: 2, lora_id: null, medium: 'GPU', lora_name: null };
    await publisher.batch(0, [named], { ts: NEW });
    await until(() => view(events).epochs === 2, 'the new life');
    expect(view(events)).toMatchObject({ encoding: 'map', hashForm: 'bytes' });
    await publisher.batch(1, [stored(1)], { ts: NEW + 1 });
    await until(() => view(events).lastSeq === 1, 'the same life in another form');
    expect(view(events)).toMatchObject({ encoding: 'mixed', hashForm: 'mixed', epochs: 2 });
    expect(view(events).hashFormChanges).toBeGreaterThan(0);
  });
});

describe('two publishers on one bound endpoint under one topic', () => {
  it('are taken for restarts at first, then found out and named', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    const events = kvEvents();
    events.attach(P0, config({ endpoint, mode: 'bind', topic: 'kv-events' }));
    await using one = TestPublisher.connected(endpoint);
    await using two = TestPublisher.connected(endpoint);
    await until(() => view(events).state === 'silent', 'connection');
    let ts = OLD;
    await until(async () => {
      ts += 1;
      await one.batch(500 + ts, [stored(ts)], { ts, topic: 'kv-events' });
      await two.batch(ts, [stored(ts)], { ts: ts + 0.5, topic: 'kv-events' });
      return doubts(events).includes('shared-stream');
    }, 'the doubt');
    expect(view(events).stateReason).toMatch(/several publishers seem to share this stream/);
    expect(view(events).confidence).toBeLessThan(0.1);
  });
});
