/** Replay sockets that are slow, broken, wrong or hostile, and restarts told in every way, over real sockets. */
import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { DecodePump } from '#engine/kv-events/decode-pump.ts';
import type { FillLimits } from '#engine/kv-events/gap-filler-options.ts';
import { IntakeTurn } from '#engine/kv-events/intake-turn.ts';
import type { ReplayOutcome } from '#engine/kv-events/replay-client.ts';
import { StreamReceiver } from '#engine/kv-events/stream-receiver.ts';
import { TestPublisher, batchFrames, freePort, stored, until } from './publisher.ts';
import { HostileRouter, reply, type Script } from './hostile-router.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';

/** For sockets that answer and then stop: on a slow machine too, their answers come sooner. */
const PAUSE_MS = 2000;

interface Rig {
  readonly publisher: TestPublisher;
  readonly router: HostileRouter;
  readonly receiver: StreamReceiver;
  /** `epoch:seq` of batches applied. */
  readonly applied: string[];
  readonly notes: string[];
  readonly outcomes: ReplayOutcome[];
}

const closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function rig(script: Script, { limits = {}, timeoutMs = WAIT_LIMIT_MS, queue = 20_000 }: { readonly limits?: Partial<FillLimits>; readonly timeoutMs?: number; readonly queue?: number } = {}): Promise<Rig> {
  const endpoint = `tcp://127.0.0.1:${await freePort()}`;
  const replayEndpoint = `tcp://127.0.0.1:${await freePort()}`;
  const publisher = await TestPublisher.bound(endpoint);
  const router = await HostileRouter.bound(replayEndpoint, script);
  const applied: string[] = [];
  const notes: string[] = [];
  const outcomes: ReplayOutcome[] = [];
  const receiver = new StreamReceiver({
    pump: new DecodePump({ messages: queue, bytes: 64 << 20 }),
    intake: new IntakeTurn(),
    replayTurn: new IntakeTurn(2),
    endpoint,
    mode: 'connect',
    topic: '',
    replayEndpoint,
    replayTimeoutMs: timeoutMs,
    replayLimits: { pauseMs: 0, backOffMs: 0, ...limits },
    onReplayEnd: (outcome) => outcomes.push(outcome),
    onPhase: () => undefined,
    sink: {
      onEpoch: () => undefined,
      onGap: () => undefined,
      onLost: () => undefined,
      onNotice: (_context, { kind, note }) => notes.push(`${kind}: ${note}`),
      onEvent: ({ epoch, seq }) => applied.push(`${epoch}:${seq ?? '-'}`),
    },
  });
  closers.push(async () => {
    await receiver.close();
    await router[Symbol.asyncDispose]();
    await publisher[Symbol.asyncDispose]();
  });
  receiver.open();
  return { publisher, router, receiver, applied, notes, outcomes };
}

const batch = (seq: number, ts = 1000 + seq) => batchFrames(seq, [stored(seq)], { ts });
const range = (from: number, to: number, epoch = 1): string[] => Array.from({ length: to - from + 1 }, (_, index) => `${epoch}:${from + index}`);
const idle = ({ receiver }: Rig): boolean => receiver.filler?.isAsking === false && !receiver.lane.isHeld && receiver.lane.queued === 0;
/** First contact over, with `count` batches 0, 1, ... applied live. */
async function contact(one: Rig, count: number): Promise<void> {
  await until(() => one.receiver.phase === 'connected' && idle(one), 'first contact');
  for (let seq = 0; seq < count; seq += 1) await one.publisher.send(batch(seq));
  await until(() => one.applied.length === count, 'the first batches');
}

const books = ({ receiver: { applier: { tracker, badMessages } } }: Rig) => {
  const { gaps, gapsFilled, missedBatches, missedFilled, missedLost } = tracker;
  return { gaps, gapsFilled, missedBatches, missedFilled, missedLost, badMessages };
};

describe('a replay', () => {
  it('that is slower than the live flow holds it back and loses nothing', async () => {
    const history = Array.from({ length: 60 }, (_, seq) => batch(seq));
    let last = 59;
    const one = await rig(async ({ from, send, end, pause }) => {
      for (let seq = from; seq < 60; seq += 1) {
        await send(reply(history[seq] ?? []));
        await pause(10);
      }
      await end();
    });
    await until(() => one.receiver.phase === 'connected', 'connection');
    // Ten live batches for each replayed one.
    while (one.receiver.filler?.isAsking === true || last <= 100) {
      last += 1;
      await one.publisher.send(batch(last));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await until(() => idle(one) && one.receiver.applier.tracker.lastSeq === last, 'the newest batch');
    expect(one.applied).toEqual(range(0, last));
    expect(books(one)).toEqual({ gaps: 0, gapsFilled: 0, missedBatches: 0, missedFilled: 0, missedLost: 0, badMessages: 0 });
  });

  it('that never comes to an end is given up, and the live flow goes on', async () => {
    const one = await rig(async ({ from, send, end, pause, question }) => {
      if (question === 1) {
        await end();
        return;
      }
      for (let seq = from; ; seq += 1) if (seq < 40) await send(reply(batch(seq))); else await pause(5);
    }, { limits: { maxFillMs: PAUSE_MS, backOffMs: 60_000 } });
    await contact(one, 2);
    await one.publisher.send(batch(50));
    await one.publisher.send(batch(51));
    await until(() => one.applied.at(-1) === '1:51', 'the live flow');
    expect(one.applied).toEqual([...range(0, 39), ...range(50, 51)]);
    expect(books(one)).toMatchObject({ gaps: 1, gapsFilled: 0, missedBatches: 48, missedFilled: 38, missedLost: 10 });
    expect(one.receiver.filler?.view()).toMatchObject({ state: 'failed' });
  });

  it('that is nothing but garbage says so, and is no answer', async () => {
    const one = await rig(async ({ send }) => {
      await send([Buffer.alloc(0)]);
      await send([Buffer.alloc(0), randomBytes(3), Buffer.from('payload')]);
      await send(Array.from({ length: 7 }, () => randomBytes(4)));
    }, { timeoutMs: PAUSE_MS });
    await until(() => one.outcomes.length === 1, 'the end');
    expect(one.outcomes[0]).toMatchObject({ status: 'partial', messages: 0, badReplies: 3 });
    expect(one.outcomes[0]?.reason).toMatch(/3 replies that are no batches/);
    await one.publisher.send(batch(0));
    await until(() => one.applied.length === 1, 'the live flow');
    expect(one.notes[0]).toMatch(/3 replies that are no batches/);
  });

  it('that goes on with garbage for ever is given up', async () => {
    const one = await rig(async ({ send, pause }) => {
      for (;;) {
        await send([Buffer.alloc(0), Buffer.alloc(0), randomBytes(5), Buffer.from('no batch')]);
        await pause(1);
      }
    }, { limits: { maxFillMs: PAUSE_MS, backOffMs: 60_000 } });
    await until(() => one.outcomes.length === 1, 'the end');
    expect(one.outcomes[0]).toMatchObject({ status: 'aborted', messages: 0 });
    await one.publisher.send(batch(0));
    await until(() => one.applied.length === 1, 'the live flow');
    expect(one.receiver.filler?.view().reason).toMatch(/replies that are no batches/);
  });

  it('whose sequence numbers cannot be read fills nothing', async () => {
    const one = await rig(async ({ from, send, end }) => {
      if (from > 0) {
        await send(reply(batch(from)));
        await send(reply(batch(from + 1)));
        for (let n = 0; n < 3; n += 1) await send(reply([Buffer.alloc(0), Buffer.alloc(8, 0xfe), batch(9)[2] ?? Buffer.alloc(0)]));
      }
      await end();
    });
    await contact(one, 3);
    await one.publisher.send(batch(8));
    await until(() => one.applied.at(-1) === '1:8', 'the live flow');
    expect(one.applied).toEqual([...range(0, 3), '1:8']);
    expect(books(one)).toMatchObject({ gaps: 1, gapsFilled: 0, missedBatches: 5, missedFilled: 1, missedLost: 4 });
  });

  it('of unreadable batches keeps count of them, and is no hole', async () => {
    const one = await rig(async ({ from, send, end }) => {
      if (from > 0) {
        await send(reply(batch(from)));
        for (let seq = from + 1; seq < 6; seq += 1) await send(reply([Buffer.alloc(0), batch(seq)[1] ?? Buffer.alloc(0), Buffer.from([0xc1, 0xff])]));
      }
      await end();
    });
    await contact(one, 3);
    await one.publisher.send(batch(6));
    await until(() => one.applied.at(-1) === '1:6', 'the live flow');
    expect(one.applied).toEqual([...range(0, 2), '1:6']);
    expect(books(one)).toMatchObject({ gaps: 1, missedBatches: 3, missedLost: 0, badMessages: 3 });
  });

  it('in any order and with repeats applies each batch once, in order', async () => {
    const one = await rig(async ({ from, send, end }) => {
      if (from > 0) for (const seq of [2, 0, 2, 3, 1, 3, 4, 4, 3, 5]) await send(reply(batch(seq)));
      await end();
    });
    await contact(one, 3);
    await one.publisher.send(batch(6));
    await until(() => one.applied.at(-1) === '1:6', 'the live flow');
    expect(one.applied).toEqual(range(0, 6));
    expect(books(one)).toMatchObject({ gaps: 1, gapsFilled: 1, missedBatches: 3, missedFilled: 3, missedLost: 0 });
  });

  it('from a buffer that begins behind the question loses what it no longer has, and no more', async () => {
    const one = await rig(async ({ from, send, end }) => {
      if (from > 0) for (let seq = 7; seq < 9; seq += 1) await send(reply(batch(seq)));
      await end();
    });
    await contact(one, 3);
    await one.publisher.send(batch(9));
    await until(() => one.applied.at(-1) === '1:9', 'the live flow');
    expect(one.applied).toEqual([...range(0, 2), ...range(7, 9)]);
    expect(books(one)).toMatchObject({ gaps: 1, gapsFilled: 0, missedBatches: 6, missedFilled: 2, missedLost: 4 });
    expect(one.notes.filter((note) => note.startsWith('lost'))).toEqual(['lost: 4 of 6 missing batches (3 to 8) are lost: the engine no longer keeps them']);
  });

  it('whose socket is reset in the middle leaves what it gave, and the next gap is asked for again', async () => {
    const one: Rig = await rig(async ({ from, send, end, question }) => {
      if (question === 2) {
        for (let seq = from; seq < from + 3; seq += 1) await send(reply(batch(seq)));
        await until(() => one.applied.at(-1) === '1:4', 'what it gave');
        return 'reset';
      }
      if (from > 0) for (let seq = from; seq < 30; seq += 1) await send(reply(batch(seq)));
      await end();
      return undefined;
    }, { timeoutMs: PAUSE_MS });
    await contact(one, 3);
    await one.publisher.send(batch(10));
    await until(() => one.applied.at(-1) === '1:10', 'the first gap');
    expect(books(one)).toMatchObject({ gaps: 1, gapsFilled: 0, missedFilled: 2, missedLost: 5 });
    await one.publisher.send(batch(15));
    await until(() => one.applied.at(-1) === '1:29', 'the second gap');
    expect(one.applied).toEqual([...range(0, 4), ...range(10, 29)]);
    expect(books(one)).toMatchObject({ gaps: 2, gapsFilled: 1, missedBatches: 11, missedFilled: 6, missedLost: 5 });
  });
});

describe('a message', () => {
  it('larger than libzmq may take costs that message, and nothing after it', async () => {
    const one = await rig(async ({ from, send, end }) => {
      for (const seq of [0, 1]) if (from > 0 && seq >= from) await send(reply(batch(seq)));
      await end();
    });
    await contact(one, 2);
    await one.publisher.send([Buffer.alloc(0), batch(2)[1] ?? Buffer.alloc(0), Buffer.alloc(65 << 20)]);
    await until(async () => {
      await one.publisher.send(batch(3));
      return one.applied.includes('1:3');
    }, 'what came after it');
    expect(one.applied).toEqual(['1:0', '1:1', '1:3']);
    expect(books(one)).toMatchObject({ gaps: 1, missedLost: 1 });
  });

  it('larger than the decoder takes is counted and shown', async () => {
    const one = await rig(({ end }) => end());
    await contact(one, 2);
    await one.publisher.send([Buffer.alloc(0), batch(2)[1] ?? Buffer.alloc(0), Buffer.alloc(17 << 20)]);
    await one.publisher.send(batch(3));
    await until(() => one.applied.at(-1) === '1:3', 'what came after it');
    expect(books(one)).toMatchObject({ gaps: 0, missedLost: 0, badMessages: 1 });
    expect(one.notes.at(-1)).toMatch(/too-large/);
  });
});
