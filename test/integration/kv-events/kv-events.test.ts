import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { InstanceIdSchema } from '#shared/ids.ts';
import { OPERATION_INPUTS, type ResidentPage } from '#shared/operations.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { KvEvents, type KvEventsOptions } from '#engine/kv-events/kv-events.ts';
import { hashHex } from '#engine/kv-events/block-hashes.ts';
import { decodeMessage } from '#engine/kv-events/decode-batch.ts';
import type { KvIndex } from '#engine/kv-index/kv-index.ts';
import { frames, vectors } from '../../unit/kv-events/golden.ts';
import { P0, TestPublisher, config, freePort, freePorts, indexed, removed, stored, until } from './publisher.ts';

const open: KvEvents[] = [];
/** The blocks of each. */
const indexes = new Map<KvEvents, KvIndex>();

function kvEvents(options: Partial<KvEventsOptions> = {}): KvEvents {
  const { books, observer } = indexed();
  const events = new KvEvents({ books, observer, ...options });
  open.push(events);
  indexes.set(events, books);
  return events;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((events) => events.close()));
});

function view(events: KvEvents, rank = 0): KvStreamView {
  const stream = events.streams().find((candidate) => candidate.rank === rank);
  if (stream === undefined) throw new Error(`no stream of rank ${rank}`);
  return stream;
}

function blocks(events: KvEvents, input: object = {}): ResidentPage {
  const index = indexes.get(events);
  if (index === undefined) throw new Error('no index');
  return index.blocks(OPERATION_INPUTS['kv.blocks'].parse(input));
}

describe('golden frames over a real socket', () => {
  it('shows every event that the frames hold', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');

    // Each vector has a sequence of its own, so here they are numbered anew.
    let seq = 0;
    let expected = 0;
    for (const golden of vectors) {
      const [topic, , payload] = frames(golden.frames_hex) as [Buffer, Buffer, Buffer];
      const sequence = Buffer.alloc(8);
      sequence.writeBigUInt64BE(BigInt(seq));
      await publisher.send([topic, sequence, payload]);
      seq += 1;
      expected += golden.decoded.batch.events.length;
    }
    await until(() => view(events).batches === vectors.length, 'all batches');

    expect(view(events)).toMatchObject({ events: expected, gaps: 0, badMessages: 0, badEvents: 0, duplicateBatches: 0, epochs: 1, sawStart: true, encoding: 'mixed', hashForm: 'mixed', lastSeq: vectors.length - 1, state: 'live' });
    expect(events.log.counters()).toEqual({ kept: expected, capacity: 50_000, total: expected, evicted: 0, dropped: 0 });
    const rows = Array.from(events.log.rows());
    const wanted = vectors.flatMap((golden) => {
      const result = decodeMessage(frames(golden.frames_hex));
      return result.ok ? result.batch.events.map((event) => (event.kind === 'stored' || event.kind === 'removed' || event.kind === 'unknown' ? hashHex(event.hashes, 0) : undefined)) : [];
    });
    expect(rows.map((row) => row.hashes[0])).toEqual(wanted);
    expect(rows.map((row) => row.n)).toEqual(Array.from({ length: expected }, (_, index) => index + 1));
    const large = rows.find((row) => row.hashCount === 128);
    expect(large?.hashes).toHaveLength(16);
    expect(large?.tokens).toHaveLength(32);
    expect(large?.tokenCount).toBe(2048);
  });
});

describe('sequence', () => {
  it('counts a gap, reports its range, and shows it in the log', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const gaps: unknown[] = [];
    const events = kvEvents({ onGap: (stream, gap) => gaps.push([stream, gap]) });
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(5, [stored(1)]);
    await publisher.batch(9, [stored(2)]);
    await publisher.batch(9, [stored(2)]);
    await publisher.batch(10, [stored(3)]);
    await until(() => view(events).lastSeq === 10, 'last batch');

    expect(view(events)).toMatchObject({ gaps: 1, missedBatches: 3, duplicateBatches: 1, batches: 3, sawStart: false, epochs: 1 });
    expect(gaps).toEqual([['p0/0', { from: 6, to: 8, epoch: 1 }]]);
    expect(Array.from(events.log.rows(), (row) => [row.kind, row.seq])).toEqual([['stored', 5], ['gap', 9], ['stored', 9], ['stored', 10]]);
    expect(Array.from(events.log.changedSince(1))[0]?.note).toBe('3 batches (6 to 8) are missing');
  });

  it('sees a restart while connected, and forgets the blocks of the old life', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(0, [stored(1), stored(2)]);
    await publisher.batch(1, [stored(3)]);
    await publisher.batch(0, [stored(9)], { ts: 5000 });
    await until(() => view(events).epochs === 2, 'second epoch');

    expect(view(events)).toMatchObject({ lastSeq: 0, gaps: 0, resident: [{ medium: 'GPU', blocks: 1 }] });
    const rows = Array.from(events.log.rows());
    expect(rows.map((row) => [row.kind, row.epoch])).toEqual([['stored', 1], ['stored', 1], ['stored', 1], ['restart', 2], ['stored', 2]]);
    expect(blocks(events).blocks.map((block) => block.hash)).toEqual(['0000000000000009']);
  });
});

describe('clocks that make no sense', () => {
  it('do not hide a restart while connected', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(0, [stored(1)]);
    await publisher.batch(1, [stored(2)], { ts: Date.now() / 1000 + 3600 });
    await publisher.batch(2, [stored(3)]);
    await publisher.batch(0, [stored(9)], { ts: 5000 });
    await until(() => view(events).epochs === 2, 'second epoch');
    expect(view(events)).toMatchObject({ lastSeq: 0, duplicateBatches: 0, strayBatches: 0, resident: [{ medium: 'GPU', blocks: 1 }] });
  });

  it('are doubted where a life cannot be told from another', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');
    for (const seq of [0, 1, 2, 3]) await publisher.batch(seq, [stored(seq)]);
    for (const seq of [0, 1]) await publisher.batch(seq, [stored(10 + seq)], { ts: 500 + seq });
    await publisher.batch(4, [stored(4)]);
    await until(() => view(events).lastSeq === 4, 'last batch');
    expect(view(events)).toMatchObject({ epochs: 1, duplicateBatches: 0, strayBatches: 2, resident: [{ medium: 'GPU', blocks: 5 }] });
    expect(view(events).reasons?.find(({ code }) => code === 'life-uncertain')?.text).toContain('2 batches left out');
    expect(Array.from(events.log.rows(), ({ kind, note }) => (kind === 'error' ? note : undefined)).filter((note) => note !== undefined)).toEqual([expect.stringContaining('batch 0 was left out: its number was there before')]);
  });

  it('are counted, and no lag is told by them', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');
    const odd: readonly unknown[] = [1000, 'soon', null, Number.NaN, Number.POSITIVE_INFINITY, 1e300];
    for (const [seq, ts] of odd.entries()) {
      await publisher.batch(seq, [stored(seq + 1)], { ts });
      await until(() => view(events).lastSeq === seq, `batch ${seq}`);
      expect(view(events)).toMatchObject({ badTimestamps: seq, resident: [{ medium: 'GPU', blocks: seq + 1 }] });
      expect(view(events).lagMs === undefined).toBe(seq > 0);
    }
    await publisher.batch(6, [stored(7)], { ts: 2000 });
    await until(() => view(events).lastSeq === 6, 'last batch');
    expect(view(events)).toMatchObject({ badTimestamps: 5, badMessages: 0, lagMs: expect.any(Number) });
    expect(Array.from(events.log.rows(), ({ engineTsUnixMs }) => engineTsUnixMs)).toEqual([1_000_000, undefined, undefined, undefined, undefined, undefined, 2_000_000]);
  });
});

describe('events that make no sense', () => {
  it('are counted each by kind, and cost no block', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(0, [stored(1), stored(2, 1), stored(1)]);
    await publisher.batch(1, [stored(9, 8), removed(7), removed(6)]);
    await publisher.batch(2, [['BlockStored', [Buffer.alloc(32, 3)], null, [5, 6], 2, null, 'GPU']]);
    await publisher.batch(3, [['BlockMoved', [1]], ['BlockRemoved', 'all'], ['BlockRemoved', [2], 'GPU', 0, 'odd']]);
    await publisher.batch(3, [stored(4)]);
    await publisher.batch(4, [stored(5)]);
    await until(() => view(events).lastSeq === 4, 'last batch');
    expect(view(events)).toMatchObject({
      duplicateStores: 1, unknownParents: 1, unknownRemovals: 3, hashFormChanges: 2, hashForm: 'mixed', unknownEvents: 1, badEvents: 1, unknownFields: 1,
      duplicateBatches: 1, epochs: 1, resident: [{ medium: 'GPU', blocks: 5 }],
    });
  });
});

describe('sockets', () => {
  it('waits for a publisher that appears late, and follows it when it dies and comes back', async () => {
    const port = await freePort();
    const endpoint = `tcp://127.0.0.1:${port}`;
    const events = kvEvents();
    events.attach(P0, config({ endpoint }));
    await until(() => view(events).stateReason === `cannot reach ${endpoint} yet; trying again`, 'a refused connection');
    expect(view(events).state).toBe('connecting');
    {
      await using publisher = await TestPublisher.bound(endpoint);
      await until(() => view(events).state === 'silent', 'connection');
      expect(view(events).stateReason).toBeUndefined();
      await publisher.batch(0, [stored(1)]);
      await publisher.batch(1, [stored(2)]);
      await until(() => view(events).state === 'live', 'live');
    }
    await until(() => view(events).state === 'lost', 'loss');
    expect(view(events).stateReason).toBe(`the connection to ${endpoint} broke; trying again`);
    await using second = await TestPublisher.bound(endpoint);
    await until(() => view(events).state === 'live', 'reconnection');
    // The clock stepped back over the restart: the new connection alone tells.
    await second.batch(0, [stored(7)], { ts: 10 });
    await until(() => view(events).epochs === 2, 'second epoch');
    expect(view(events)).toMatchObject({ duplicateBatches: 0, resident: [{ medium: 'GPU', blocks: 1 }] });
  });

  it('says when several publishers share a stream', async () => {
    const port = await freePort();
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}`, mode: 'bind' }));
    await using one = TestPublisher.connected(`tcp://127.0.0.1:${port}`);
    await using other = TestPublisher.connected(`tcp://127.0.0.1:${port}`);
    let seq = 0;
    await until(async () => {
      await one.batch(seq, [stored(1)], { topic: 'kv@a' });
      await other.batch(seq, [stored(1)], { topic: 'kv@b', ts: 5000 + seq });
      seq += 1;
      return view(events).stateReason !== undefined && view(events).state === 'live';
    }, 'a reason');
    expect(view(events).stateReason).toMatch(/^several publishers share this stream \(topics "kv@[ab]", "kv@[ab]"\); give each instance its own endpoint or topic$/);
  });

  it('binds for engines whose publisher connects', async () => {
    const port = await freePort();
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}`, mode: 'bind' }));
    expect(view(events)).toMatchObject({ state: 'connecting', stateReason: `bound to tcp://127.0.0.1:${port}, no engine has connected yet` });
    {
      await using publisher = TestPublisher.connected(`tcp://127.0.0.1:${port}`);
      await until(() => view(events).state === 'silent', 'an engine');
      await publisher.batch(0, [stored(1)]);
      await until(() => view(events).state === 'live', 'live');
    }
    await until(() => view(events).state === 'lost', 'loss');
    expect(view(events).stateReason).toBe('the engine disconnected');
  });

  it('fails visibly when it cannot bind', async () => {
    const port = await freePort();
    const events = kvEvents();
    {
      await using _taken = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
      events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}`, mode: 'bind' }));
      expect(view(events).state).toBe('failed');
      expect(view(events).stateReason).toMatch(/^cannot bind tcp:\/\/127\.0\.0\.1:\d+: Address already in use/);
    }
    await until(() => view(events).state === 'connecting', 'the port');
  });

  it('binds again when it is attached again', async () => {
    const port = await freePort();
    const events = kvEvents();
    const bound = config({ endpoint: `tcp://127.0.0.1:${port}`, mode: 'bind' });
    events.attach(P0, bound);
    events.attach(P0, bound);
    await until(() => view(events).state === 'connecting', 'the port');
    await using publisher = TestPublisher.connected(`tcp://127.0.0.1:${port}`);
    await until(() => view(events).state === 'silent', 'an engine');
    await publisher.batch(0, [stored(1)]);
    await until(() => view(events).batches === 1, 'batch');
    expect(view(events)).toMatchObject({ state: 'live', epochs: 1 });
  });

  it('receives over ipc', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'pdscope-kv-'));
    const endpoint = `ipc://${join(folder, 'kv.sock')}`;
    await using publisher = await TestPublisher.bound(endpoint);
    const events = kvEvents();
    events.attach(P0, config({ endpoint }));
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(0, [stored(1)]);
    await until(() => view(events).batches === 1, 'batch');
    expect(view(events)).toMatchObject({ state: 'live', endpoint });
    await events.close();
    await rm(folder, { recursive: true });
  });

  it('takes only what begins with the topic', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}`, topic: 'kv@a' }));
    await until(() => view(events).state === 'silent', 'connection');
    expect(view(events).stateReason).toBe('nothing has arrived under topic "kv@a" yet: an idle engine, or one that publishes under another topic');
    await publisher.batch(0, [stored(1)], { topic: 'kv@b' });
    await publisher.batch(0, [stored(2)], { topic: 'kv@a@model' });
    await until(() => view(events).batches === 1, 'batch');
    expect(blocks(events).blocks.map((block) => block.hash)).toEqual(['0000000000000002']);
    expect(view(events).stateReason).toBeUndefined();
  });

  it('refuses endpoints that cannot be right, and opens nothing then', () => {
    const events = kvEvents();
    expect(() => events.attach(P0, config({ endpoint: 'tcp://127.0.0.1:65535', ranks: 2 }))).toThrow(/rank 1 would need port 65536/);
    expect(() => events.attach(P0, config({ endpoint: 'tcp://127.0.0.1' }))).toThrow(/a port is missing/);
    expect(events.streams()).toEqual([]);
  });

  it('forgets blocks and streams on detach, keeps the rows, and attaches again', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    const endpoint = config({ endpoint: `tcp://127.0.0.1:${port}` });
    events.attach(P0, endpoint);
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(0, [stored(1)]);
    await until(() => view(events).batches === 1, 'batch');
    events.detach(P0.id);
    expect(events.streams()).toEqual([]);
    expect(blocks(events)).toMatchObject({ total: 0, matching: 0, byStream: [] });
    expect(events.log.counters().kept).toBe(1);
    expect(() => blocks(events, { stream: 'p0/0' })).toThrow(/No KV event stream p0\/0/);
    events.attach({ id: InstanceIdSchema.parse('p1'), name: 'P1' }, endpoint);
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.subscribed(2);
    await publisher.batch(1, [stored(2)]);
    await until(() => view(events).batches === 1, 'batch');
    expect(view(events)).toMatchObject({ id: 'p1/0', sawStart: false, epochs: 1 });
  });
});

describe('bad input', () => {
  it('costs a bad message that message, and shows it', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');
    const send = (...parts: readonly string[]): Promise<void> => publisher.send([Buffer.alloc(0), ...parts.map((hex) => Buffer.from(hex, 'hex'))]);
    await publisher.send([Buffer.from('only one frame')]);
    await send('0000000000000000', '93');
    await send('0000000000000001', '9301919143aa');
    await send('0000000000000002', '920190');
    await until(() => view(events).lastSeq === 2, 'the good one');
    expect(view(events)).toMatchObject({ badMessages: 3, batches: 1, gaps: 0 });
    // What the two numbered ones stored is as unknown to the index as if they were lost.
    expect(indexes.get(events)?.stream(view(events).id)?.coverage.ranges.map(({ cause, from, to }) => [cause, from, to])).toEqual([['gap', 0, 0], ['gap', 1, 1]]);
    expect(Array.from(events.log.rows(), (row) => [row.kind, row.seq, row.note])).toEqual([
      ['error', undefined, 'message not readable (frame-count): 1 frame instead of topic, sequence and payload'],
      ['error', 0, 'message not readable (malformed): payload: truncated'],
      ['error', 1, 'message not readable (malformed): payload: truncated'],
    ]);
  });

  it('refuses what its queue cannot hold, counts it, and says so in the gap', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents({ queueLimit: { messages: 1000, bytes: 2000 } });
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');
    let sent = 0;
    const send = async (blocks: number): Promise<void> => {
      await publisher.batch(sent, [['BlockRemoved', Array.from({ length: blocks }, (_, index) => index), 'GPU']]);
      sent += 1;
    };
    // How many of those sent together are decoded before the next one comes is up to the machine, so until one is refused.
    await until(async () => {
      for (let count = 0; count < 20; count += 1) await send(300);
      return view(events).droppedMessages > 0;
    }, 'a refused batch');
    // Only the next one that is taken tells of those before it.
    await until(async () => {
      const { batches, droppedMessages, lastSeq } = view(events);
      const isSettled = batches + droppedMessages === sent;
      if (isSettled && lastSeq !== sent - 1) await send(1);
      return isSettled && lastSeq === sent - 1;
    }, 'a last batch that was taken');
    const { droppedMessages, missedBatches, gaps } = view(events);
    expect(missedBatches).toBe(droppedMessages);
    expect(events.log.counters().dropped).toBe(droppedMessages);
    const notes = Array.from(events.log.rows()).filter(({ kind }) => kind === 'gap').map(({ note }) => note);
    expect(notes).toHaveLength(gaps);
    for (const note of notes) expect(note).toMatch(/^(batch \d+ is|\d+ batches \(\d+ to \d+\) are) missing; all refused by pdscope's own full queue$/);
  });
});

describe('a flood', () => {
  it('adds up: every batch sent was applied or counted as missed', async () => {
    const base = await freePorts(2);
    await using flood = await TestPublisher.bound(`tcp://127.0.0.1:${base}`);
    await using quiet = await TestPublisher.bound(`tcp://127.0.0.1:${base + 1}`);
    const events = kvEvents({ queueLimit: { messages: 500, bytes: 1e6 }, capacity: 1000 });
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${base}`, ranks: 2 }));
    await until(() => events.streams().every((stream) => stream.state === 'silent'), 'connections');
    const sent = 20_000;
    for (let seq = 0; seq < sent; seq += 1) {
      await flood.batch(seq, [stored(seq % 5000)]);
      if (seq % 1000 === 0) await quiet.batch(seq / 1000, [stored(seq)], { rank: 1 });
    }
    // Whatever was refused shows as a gap before the next batch that was not.
    let last = sent;
    await until(async () => {
      await flood.batch(last, [['AllBlocksCleared']]);
      last += 1;
      return view(events, 0).lastSeq !== undefined && (view(events, 0).lastSeq ?? 0) >= sent && view(events, 1).batches === 20;
    }, 'the end');
    const stream = view(events, 0);
    expect(stream.batches + stream.missedBatches).toBe((stream.lastSeq ?? 0) + 1);
    expect(stream).toMatchObject({ badMessages: 0, duplicateBatches: 0, epochs: 1 });
    expect(view(events, 1)).toMatchObject({ droppedMessages: 0, gaps: 0 });
    const counters = events.log.counters();
    expect(counters.kept).toBe(1000);
    expect(counters.total).toBe(counters.kept + counters.evicted);
  });
});
