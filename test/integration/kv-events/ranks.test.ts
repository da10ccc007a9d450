/** Data-parallel ranks: a stream each, at port + rank, and what tells that a stream is another rank's. */
import { afterEach, describe, expect, it } from 'vitest';
import type { KvStreamView } from '#shared/kv.ts';
import { OPERATION_INPUTS } from '#shared/operations.ts';
import { KvEvents, type KvEventsOptions } from '#engine/kv-events/kv-events.ts';
import { P0, TestPublisher, config, freePort, freePorts, indexed, removed, stored, until } from './publisher.ts';

const open: KvEvents[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((events) => events.close()));
});

function kvEvents(indexedBy: Pick<KvEventsOptions, 'books' | 'observer' | 'firstRank'> = indexed()): KvEvents {
  const events = new KvEvents(indexedBy);
  open.push(events);
  return events;
}

function view(events: KvEvents, rank = 0): KvStreamView {
  const stream = events.streams()[rank];
  if (stream === undefined) throw new Error(`no stream of rank ${rank}`);
  return stream;
}

describe('ranks', () => {
  it('has one stream per data-parallel rank, each with its own sequence and blocks', async () => {
    const base = await freePorts(2);
    await using rank0 = await TestPublisher.bound(`tcp://127.0.0.1:${base}`);
    await using rank1 = await TestPublisher.bound(`tcp://127.0.0.1:${base + 1}`);
    const { books, observer } = indexed();
    const events = kvEvents({ books, observer });
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${base}`, ranks: 2 }));
    expect(events.streamsOf(P0.id)).toEqual(['p0/0', 'p0/1']);
    await until(() => events.streams().every((stream) => stream.state === 'silent'), 'both connections');
    await rank0.batch(0, [stored(1)]);
    await rank1.batch(0, [stored(1), stored(2)], { rank: 1 });
    await rank1.batch(1, [removed(1)], { rank: 1 });
    await until(() => view(events, 0).batches === 1 && view(events, 1).batches === 2, 'batches');
    expect(view(events, 0)).toMatchObject({ endpoint: `tcp://127.0.0.1:${base}`, resident: [{ medium: 'GPU', blocks: 1 }] });
    expect(view(events, 0).stateReason).toBeUndefined();
    expect(view(events, 1)).toMatchObject({ endpoint: `tcp://127.0.0.1:${base + 1}`, gaps: 0 });
    const page = books.blocks(OPERATION_INPUTS['kv.blocks'].parse({ stream: 'p0/1' }));
    expect(page.blocks.map(({ hash }) => hash)).toEqual(['0000000000000002']);
    expect(page.total).toBe(2);
  });

  it('says when the batches are of another rank than the endpoint was taken for', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
    await until(() => view(events).state === 'silent', 'connection');
    await publisher.batch(0, [stored(1)], { rank: 3 });
    await until(() => view(events).batches === 1, 'batch');
    expect(view(events).stateReason).toBe('its batches say rank 3, but the endpoint was taken for rank 0');
  });

  it('knows the ranks of a later node, which count on, from a base port that is off by one', async () => {
    const base = await freePorts(3);
    await using first = await TestPublisher.bound(`tcp://127.0.0.1:${base}`);
    await using second = await TestPublisher.bound(`tcp://127.0.0.1:${base + 1}`);
    const doubts = (rank: number): readonly string[] => (view(events, rank).reasons ?? []).map(({ code }) => code).filter((code) => code === 'other-rank');
    const events = kvEvents();
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${base}`, ranks: 2 }));
    await until(() => events.streams().every((stream) => stream.state === 'silent'), 'both connections');
    await first.batch(0, [stored(1)], { rank: 8 });
    await until(() => view(events, 0).batches === 1, 'a batch of the first');
    expect(doubts(0)).toEqual([]);
    await second.batch(0, [stored(1)], { rank: 9 });
    await until(() => view(events, 1).batches === 1, 'a batch of the second');
    expect([doubts(0), doubts(1)]).toEqual([[], []]);
    expect(view(events, 1).stateReason).toBe('its batches say rank 9: the ranks of this instance count from 8');

    // Taken for rank 0, it is rank 1; and behind the last one nobody publishes.
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${base + 1}`, ranks: 2 }));
    await until(() => view(events, 0).state === 'silent', 'connection');
    await second.subscribed(2);
    await second.batch(1, [stored(2)], { rank: 1 });
    await until(() => view(events, 0).batches === 1, 'a batch of the wrong one');
    expect(doubts(0)).toEqual(['other-rank']);
    expect(view(events, 0).stateReason).toBe('its batches say rank 1, but the endpoint was taken for rank 0');
  });

  it.each([
    [8, 1, [], 'its batches say rank 8: the ranks of this instance count from 8'],
    [0, 1, ['other-rank'], 'its batches say rank 8, but the endpoint was taken for rank 0'],
    [undefined, 1, ['other-rank'], 'its batches say rank 8, but the endpoint was taken for rank 0'],
    // All streams agree, but the instance itself says otherwise.
    [7, 2, ['other-rank'], 'its batches say rank 8, but the endpoint was taken for rank 0'],
  ] as const)('believes an instance whose /metrics say that its ranks begin at %s (%i rank)', async (firstRank, ranks, codes, reason) => {
    const base = await freePorts(2);
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${base}`);
    await using other = await TestPublisher.bound(`tcp://127.0.0.1:${base + 1}`);
    const events = kvEvents({ ...indexed(), firstRank: () => firstRank });
    events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${base}`, ranks }));
    await until(() => events.streams().every((stream) => stream.state === 'silent'), 'connection');
    await publisher.batch(0, [stored(1)], { rank: 8 });
    // With one rank nobody listens to the other.
    if (ranks === 2) await other.batch(0, [stored(1)], { rank: 9 });
    await until(() => events.streams().every((stream) => stream.batches === 1), 'batches');
    const { stateReason } = view(events);
    // Made-up timestamps lag.
    const reasons = (view(events).reasons ?? []).filter(({ code }) => code !== 'lagging');
    expect(reasons.map(({ code }) => code)).toEqual(codes);
    expect(stateReason).toBe(reason);
    expect(reasons[0]?.text.includes('later node') === true).toBe(firstRank === undefined);
  });
});
