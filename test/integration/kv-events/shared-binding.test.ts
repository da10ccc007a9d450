/** Several engines whose publishers connect to one endpoint that pdscope binds, told apart by their topics. */
import { afterEach, describe, expect, it } from 'vitest';
import { InstanceIdSchema } from '#shared/ids.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { KvEvents } from '#engine/kv-events/kv-events.ts';
import { TestPublisher, config, freePort, indexed, stored, until } from './publisher.ts';

const open: KvEvents[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((events) => events.close()));
});

function kvEvents(): KvEvents {
  const events = new KvEvents(indexed());
  open.push(events);
  return events;
}

const A = { id: InstanceIdSchema.parse('a'), name: 'A' };
const B = { id: InstanceIdSchema.parse('b'), name: 'B' };

function view(events: KvEvents, id: string): KvStreamView {
  const stream = events.streams().find(({ instance }) => instance === id);
  if (stream === undefined) throw new Error(`no stream of ${id}`);
  return stream;
}

/** Sends batches until one has arrived: what a publisher sends before the subscription reaches it goes nowhere. */
async function reach(events: KvEvents, id: string, send: (seq: number) => Promise<void>): Promise<number> {
  let seq = 0;
  await until(async () => {
    if (view(events, id).lastSeq !== undefined) return true;
    await send(seq);
    seq += 1;
    return false;
  }, `a batch of ${id}`);
  await until(() => view(events, id).lastSeq === seq - 1, `the last batch of ${id}`);
  return seq;
}

describe('engines that connect to one bound endpoint', () => {
  it('are streams of their own by topic, each with its own sequence and blocks', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    const events = kvEvents();
    events.attach(A, config({ endpoint, mode: 'bind', topic: 'kv@10.0.0.1@' }));
    events.attach(B, config({ endpoint, mode: 'bind', topic: 'kv@10.0.0.2@' }));
    await using one = TestPublisher.connected(endpoint);
    await using two = TestPublisher.connected(endpoint);
    const now = Date.now() / 1000;
    const seqA = await reach(events, 'a', (seq) => one.batch(seq, [stored(1)], { topic: 'kv@10.0.0.1@m', ts: now + seq / 1000 }));
    await reach(events, 'b', (seq) => two.batch(seq, [stored(2)], { topic: 'kv@10.0.0.2@m', ts: now + seq / 1000 }));
    await one.batch(seqA, [stored(3)], { topic: 'kv@10.0.0.1@m', ts: now + 1 });
    await until(() => view(events, 'a').lastSeq === seqA, 'one more of A');
    expect(events.streams().map(({ state, stateReason, gaps, epochs }) => ({ state, stateReason, gaps, epochs }))).toEqual([
      { state: 'live', stateReason: undefined, gaps: 0, epochs: 1 }, { state: 'live', stateReason: undefined, gaps: 0, epochs: 1 },
    ]);
    expect(view(events, 'a').resident).toEqual([{ medium: 'GPU', blocks: 2 }]);
    expect(view(events, 'b').resident).toEqual([{ medium: 'GPU', blocks: 1 }]);

    // The endpoint stays bound while anybody uses it, and is free afterwards.
    events.detach(A.id);
    const seqB = (view(events, 'b').lastSeq ?? 0) + 1;
    await two.batch(seqB, [stored(4)], { topic: 'kv@10.0.0.2@m', ts: now + 2 });
    await until(() => view(events, 'b').lastSeq === seqB, 'one more of B');
    await events.close();
    await using _other = await TestPublisher.bound(endpoint);
  });

  it('are looked for under a topic that nobody sends, and the topics that are sent are named', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    const events = kvEvents();
    events.attach(A, config({ endpoint, mode: 'bind', topic: 'kv@10.0.0.1@' }));
    await using one = TestPublisher.connected(endpoint);
    let seq = 0;
    await until(async () => {
      await one.batch(seq, [stored(1)], { topic: 'kv@10.0.0.9:8000@m' });
      seq += 1;
      return view(events, 'a').stateReason?.startsWith('nothing arrives') === true;
    }, 'a reason');
    expect(view(events, 'a')).toMatchObject({ state: 'silent', batches: 0, stateReason: 'nothing arrives under topic "kv@10.0.0.1@", but under "kv@10.0.0.9:8000@m", which no instance takes' });
    // Whoever takes it joins the connection that stands.
    events.attach(B, config({ endpoint, mode: 'bind', topic: 'kv@10.0.0.9' }));
    expect(view(events, 'b').state).toBe('silent');
    await one.batch(seq, [stored(1)], { topic: 'kv@10.0.0.9:8000@m' });
    await until(() => view(events, 'b').batches > 0, 'the batch');
    expect(view(events, 'a').stateReason).toBeUndefined();
  });
});
