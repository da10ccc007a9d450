import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { DecodePump } from '#engine/kv-events/decode-pump.ts';
import { IntakeTurn } from '#engine/kv-events/intake-turn.ts';

const message = (text: string): Uint8Array[] => [Buffer.from(text)];
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const text = (frames: readonly Uint8Array[]): string => Buffer.from(frames[0] ?? []).toString();

async function drained(pump: DecodePump): Promise<void> {
  while (pump.queuedMessages > 0) await turn();
}

/** Takes about `ms` of the event loop. */
function spin(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until; );
}

describe('DecodePump', () => {
  it('hands on every message of a lane in order, not within the offer', async () => {
    const pump = new DecodePump({ messages: 5000, bytes: 1e6 });
    const seen: string[] = [];
    const lane = pump.open(({ frames }) => seen.push(text(frames)));
    const sent = Array.from({ length: 3000 }, (_, index) => String(index));
    for (const one of sent) lane.offer(message(one), false);
    expect(seen).toEqual([]);
    await drained(pump);
    expect(seen).toEqual(sent);
    expect(lane).toMatchObject({ queued: 0, queuedBytes: 0, dropped: 0 });
  });

  it('gives quiet lanes their turn while another floods', async () => {
    const pump = new DecodePump({ messages: 5000, bytes: 1e6 });
    let handled = 0;
    const busy = pump.open(() => {
      handled += 1;
      spin(0.3);
    });
    let handledBefore = -1;
    const quiet = pump.open(() => {
      handledBefore = handled;
    });
    for (let index = 0; index < 200; index += 1) busy.offer(message('x'), false);
    quiet.offer(message('y'), false);
    await drained(pump);
    expect(handled).toBe(200);
    expect(handledBefore).toBeGreaterThanOrEqual(0);
    // At most one turn of the busy lane comes before it.
    expect(handledBefore).toBeLessThanOrEqual(8);
  });

  it('takes the time it is given, which may change from slice to slice', async () => {
    let sliceMs = 0;
    const pump = new DecodePump({ messages: 5000, bytes: 1e6 }, () => sliceMs);
    let handled = 0;
    const lane = pump.open(() => {
      handled += 1;
    });
    for (let index = 0; index < 100; index += 1) lane.offer(message('x'), false);
    await turn();
    await turn();
    expect(handled).toBe(2);
    sliceMs = 10_000;
    await turn();
    expect(handled).toBe(100);
  });

  it('lets the event loop turn between slices', async () => {
    const pump = new DecodePump({ messages: 5000, bytes: 1e6 });
    const lane = pump.open(() => spin(0.5));
    for (let index = 0; index < 100; index += 1) lane.offer(message('x'), false);
    let turns = 0;
    while (pump.queuedMessages > 0) {
      await turn();
      turns += 1;
    }
    // 50 ms of work in slices of about half a millisecond.
    expect(turns).toBeGreaterThan(50);
  });

  it('refuses and counts what does not fit, and tells the next message', async () => {
    const pump = new DecodePump({ messages: 2, bytes: 100 });
    const seen: [string, number][] = [];
    const lane = pump.open(({ frames, droppedBefore }) => seen.push([text(frames), droppedBefore]));
    expect(['a', 'b', 'c', 'd'].map((one) => lane.offer(message(one), false))).toEqual([true, true, false, false]);
    await drained(pump);
    lane.offer(message('e'), false);
    lane.offer([Buffer.alloc(101)], false);
    await drained(pump);
    expect(seen).toEqual([['a', 0], ['b', 0], ['e', 2]]);
    expect(lane.dropped).toBe(3);
  });

  it('hands on a message larger than the whole queue, one at a time, so that it is not taken for a queue that was full', async () => {
    const pump = new DecodePump({ messages: 10, bytes: 100 });
    const seen: number[] = [];
    const [lane, other] = [pump.open(({ bytes }) => seen.push(bytes)), pump.open(({ bytes }) => seen.push(bytes))];
    expect([lane, lane, other].map((one) => one.offer([Buffer.alloc(101)], false))).toEqual([true, false, false]);
    await drained(pump);
    expect(other.offer([Buffer.alloc(500)], false)).toBe(true);
    await drained(pump);
    expect(seen).toEqual([101, 500]);
    expect([lane.dropped, other.dropped]).toEqual([1, 1]);
  });

  it('keeps room for a quiet lane while a flood fills the queue', () => {
    const pump = new DecodePump({ messages: 10, bytes: 1e6 });
    const busy = pump.open(() => undefined);
    const quiet = pump.open(() => undefined);
    for (let index = 0; index < 50; index += 1) busy.offer(message('x'), false);
    expect(busy).toMatchObject({ queued: 10, dropped: 40 });
    expect(quiet.offer(message('y'), false)).toBe(true);
    expect(quiet.dropped).toBe(0);
  });

  it('holds a lane until it is released, and forgets what a closed lane held', async () => {
    const pump = new DecodePump({ messages: 10, bytes: 1e6 });
    const seen: string[] = [];
    const held = pump.open(({ frames }) => seen.push(text(frames)));
    const closed = pump.open(({ frames }) => seen.push(text(frames)));
    held.hold();
    held.offer(message('held'), false);
    closed.offer(message('closed'), false);
    closed.close();
    await turn();
    await turn();
    expect(seen).toEqual([]);
    expect(pump.queuedMessages).toBe(1);
    held.release();
    await drained(pump);
    expect(seen).toEqual(['held']);
    expect(closed.offer(message('late'), false)).toBe(false);
  });

  it('hands on a message again that was put back, before those behind it', async () => {
    const pump = new DecodePump({ messages: 10, bytes: 1e6 });
    const seen: [string, number][] = [];
    let isFirst = true;
    const lane = pump.open((queued) => {
      if (isFirst) {
        isFirst = false;
        lane.hold(queued);
        return;
      }
      seen.push([text(queued.frames), queued.number]);
    });
    lane.offer(message('a'), false);
    lane.offer(message('b'), false);
    await turn();
    await turn();
    expect(seen).toEqual([]);
    expect(lane).toMatchObject({ queued: 2, queuedBytes: 2, lastNumber: 2 });
    expect(pump.queuedMessages).toBe(2);
    lane.release();
    await drained(pump);
    expect(seen).toEqual([['a', 1], ['b', 2]]);
    expect(lane).toMatchObject({ queued: 0, queuedBytes: 0 });
  });

  it('keeps the frames of a message that is put back, however much comes and goes meanwhile', async () => {
    const pump = new DecodePump({ messages: 1000, bytes: 1e7 });
    const seen: string[] = [];
    let isFirst = true;
    const held = pump.open((queued) => {
      if (isFirst) {
        isFirst = false;
        held.hold(queued);
      } else seen.push(text(queued.frames));
    });
    const other = pump.open(({ frames }) => seen.push(text(frames)));
    held.offer(message('first'), false);
    await turn();
    await turn();
    const more = Array.from({ length: 50 }, (_, index) => `${index} ${'x'.repeat(10_000)}`);
    for (const one of more) {
      other.offer(message(one), false);
      held.offer(message(one), false);
      await turn();
    }
    expect(seen).toEqual(more);
    held.release();
    await drained(pump);
    expect(seen.slice(more.length)).toEqual(['first', ...more]);
  });

  it('forgets a message put back when the lane is closed', async () => {
    const pump = new DecodePump({ messages: 10, bytes: 1e6 });
    const lane = pump.open((queued) => lane.hold(queued));
    lane.offer(message('a'), false);
    await turn();
    lane.close();
    expect(pump.queuedMessages).toBe(0);
  });

  it('accounts for every message: handled, refused or queued, within twice the limit', () => {
    fc.assert(fc.property(fc.array(fc.record({ lane: fc.nat(3), bytes: fc.integer({ min: 0, max: 40 }) }), { maxLength: 200 }), (offers) => {
      const pump = new DecodePump({ messages: 20, bytes: 300 });
      const lanes = Array.from({ length: 4 }, () => pump.open(() => undefined));
      for (const { lane, bytes } of offers) lanes[lane]?.offer([new Uint8Array(bytes)], false);
      const queued = lanes.reduce((sum, lane) => sum + lane.queued, 0);
      const dropped = lanes.reduce((sum, lane) => sum + lane.dropped, 0);
      expect(queued + dropped).toBe(offers.length);
      expect(pump.queuedMessages).toBe(queued);
      expect(queued).toBeLessThanOrEqual(40);
      expect(lanes.reduce((sum, lane) => sum + lane.queuedBytes, 0)).toBeLessThanOrEqual(600);
    }));
  });
});

describe('IntakeTurn', () => {
  it('is spent after its allowance, and fresh in the next turn', async () => {
    const intake = new IntakeTurn(1);
    expect(intake.isSpent()).toBe(false);
    spin(1.5);
    expect(intake.isSpent()).toBe(true);
    await intake.next();
    expect(intake.isSpent()).toBe(false);
  });
});
