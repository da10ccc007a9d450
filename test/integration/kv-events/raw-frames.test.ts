/** Raw frames of rows, over real sockets. */
import { afterEach, expect, test } from 'vitest';
import { KvEvents, type KvEventsOptions } from '#engine/kv-events/kv-events.ts';
import { P0, TestPublisher, batchFrames, config, freePort, indexed, removed, stored, until } from './publisher.ts';

const open: KvEvents[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((events) => events.close()));
});

async function attached(options: Partial<KvEventsOptions> = {}): Promise<{ readonly events: KvEvents; readonly publisher: TestPublisher }> {
  const port = await freePort();
  const publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
  const events = new KvEvents({ ...indexed(), ...options });
  open.push(events);
  events.attach(P0, config({ endpoint: `tcp://127.0.0.1:${port}` }));
  await until(() => events.streams()[0]?.state === 'silent', 'connection');
  return { events, publisher };
}

test('every row of a message has its frames, as hex and as JSON text with exact hashes', async () => {
  const { events, publisher } = await attached();
  await using _ = publisher;
  const [topic, sequence, payload] = batchFrames(1, [stored(5n), stored(18_446_744_073_709_551_615n, 5n), removed(5n)], { topic: '', ts: 77.5 });
  await publisher.batch(0, [stored(1)]);
  await publisher.send([topic, sequence, payload] as Buffer[]);
  await until(() => events.log.lastChange() === 4, 'four rows');
  for (const n of [2, 3, 4]) {
    const found = events.frames(n);
    expect(found).toEqual({
      n,
      stream: 'p0/0',
      seq: 1,
      receivedAtUnixMs: expect.any(Number) as number,
      frames: [
        { name: 'topic', bytes: 0, hex: '', isCut: false },
        { name: 'sequence', bytes: 8, hex: '0000000000000001', isCut: false },
        { name: 'payload', bytes: payload?.length, hex: payload?.toString('hex'), isCut: false },
      ],
      decoded: '[77.5,[["BlockStored",["5"],null,[5,6],2,null,"GPU"],["BlockStored",["18446744073709551615"],"5",[18446744073709552000,18446744073709552000],2,null,"GPU"],["BlockRemoved",["5"],"GPU"]],0]',
    });
  }
  expect(events.frames(1)).toMatchObject({ seq: 0, decoded: expect.stringContaining('[1,2]') as string });
});

test('a message that could not be read shows its frames and what is wrong with them', async () => {
  const { events, publisher } = await attached();
  await using _ = publisher;
  await publisher.send([Buffer.from('lonely')]);
  const [topic, sequence, payload] = batchFrames(0, [stored(1)]) as [Buffer, Buffer, Buffer];
  await publisher.send([topic, sequence, payload.subarray(0, -1)]);
  await until(() => events.log.lastChange() === 2, 'two rows');
  expect(events.frames(1)).toMatchObject({
    frames: [{ name: 'other', bytes: 6, hex: Buffer.from('lonely').toString('hex') }],
    problem: 'frame-count: 1 frame instead of topic, sequence and payload',
  });
  const truncated = events.frames(2);
  expect(truncated).toMatchObject({ seq: 0, frames: [{}, {}, { name: 'payload', bytes: payload.length - 1 }], problem: 'malformed: payload: truncated' });
  expect(truncated.decoded).toBeUndefined();
});

test('long frames and texts are cut', async () => {
  const { events, publisher } = await attached();
  await using _ = publisher;
  await publisher.batch(0, [['BlockStored', [1], null, Array.from({ length: 40_000 }, (_value, index) => index), 40_000, null, 'GPU']]);
  await until(() => events.log.lastChange() === 1, 'the row');
  const { frames, decoded } = events.frames(1);
  expect(frames[2]).toMatchObject({ isCut: true });
  expect(frames[2]?.hex).toHaveLength(2 * 16 * 1024);
  expect(decoded).toHaveLength(64 * 1024);
});

test('says why there is nothing to show: evicted, not kept, or no message at all', async () => {
  const { events, publisher } = await attached({ frames: { maxMessages: 2 }, capacity: 10 });
  await using _ = publisher;
  await publisher.batch(0, [stored(1)]);
  await publisher.batch(1, [stored(2)]);
  await publisher.batch(3, [stored(3)]);
  await publisher.batch(4, [stored(4)]);
  await until(() => events.log.lastChange() === 5, 'five rows');
  const kinds = Array.from(events.log.rows(), ({ kind }) => kind);
  expect(kinds).toEqual(['stored', 'stored', 'gap', 'stored', 'stored']);
  expect(() => events.frames(1)).toThrow(expect.objectContaining({ code: 'kv_frames_evicted' }));
  expect(() => events.frames(3)).toThrow(expect.objectContaining({ code: 'kv_row_without_message' }));
  expect(() => events.frames(6)).toThrow(expect.objectContaining({ code: 'kv_row_not_kept' }));
  expect(events.frames(4)).toMatchObject({ n: 4, seq: 3 });
  expect(events.frames(5)).toMatchObject({ n: 5, seq: 4 });
  events.log.clear();
  expect(() => events.frames(5)).toThrow(expect.objectContaining({ code: 'kv_row_not_kept' }));
});
