import { describe, expect, it } from 'vitest';
import { LocalTimeObserver } from '#engine/cache/local-time-observer.ts';
import { PublisherClock } from '#engine/cache/publisher-clock.ts';
import type { BatchContext } from '#engine/kv-events/batch-applier.ts';
import type { KvEvent } from '#engine/kv-events/kv-event.ts';
import type { KvObserver } from '#engine/kv-events/kv-observer.ts';
import { cleared, identity } from '../kv-index/events.ts';

const P0 = identity('p0');
const BAD: KvEvent = { kind: 'bad', reason: 'no array', raw: '7' };

function setUp(): { readonly told: string[]; readonly observer: LocalTimeObserver } {
  const told: string[] = [];
  const to: KvObserver = {
    onOpen: ({ id }) => told.push(`open ${id}`),
    onEvent: (_, { tsUnixMs, seq }, event) => told.push(`${event.kind} ${seq} at ${tsUnixMs}`),
    onEpoch: (_, { ended }) => told.push(`epoch ${ended} ended`),
    onLost: (_, { from, to: last, epoch }) => told.push(`lost ${from}-${last} of ${epoch}`),
    onClose: ({ id }) => told.push(`close ${id}`),
  };
  const observer = new LocalTimeObserver(to);
  observer.onOpen(P0);
  told.length = 0;
  return { told, observer };
}

const batch = (seq: number, tsUnixMs: number | undefined, receivedAtUnixMs: number, isReplayed = false): BatchContext => ({ epoch: 1, seq, tsUnixMs, receivedAtUnixMs, isReplayed });

describe('PublisherClock', () => {
  it('believes no difference within the length of a way, and every other one, by the least delay seen', () => {
    const clock = new PublisherClock();
    expect(clock.aheadMs).toBe(0);
    clock.see(1000, 1250);
    expect(clock.aheadMs).toBe(0);
    const behind = new PublisherClock();
    behind.see(1000, 9000);
    behind.see(2000, 7003);
    behind.see(3000, 8500);
    expect(behind.aheadMs).toBe(5003);
    const ahead = new PublisherClock();
    ahead.see(5000, 5100);
    ahead.see(6000, 5999);
    expect(ahead.aheadMs).toBe(-1);
    ahead.reset();
    expect(ahead.aheadMs).toBe(0);
  });

  it('forgets a clock that was set right, and a time from nowhere, two windows later; an engine that says little keeps its own', () => {
    const [busy, quiet] = [new PublisherClock(), new PublisherClock()];
    for (const clock of [busy, quiet]) clock.see(9e12, 1000);
    const window = (clock: PublisherClock, from: number, batches: number): number => {
      for (let n = 0; n < batches; n += 1) clock.see(from + n * 10, from + n * 10 + 5);
      return clock.aheadMs;
    };
    const wrong = 1000 - 9e12;
    expect([window(busy, 2000, 120), window(busy, 301_000, 120), window(busy, 602_000, 120)]).toEqual([wrong, wrong, 0]);
    expect([window(quiet, 2000, 20), window(quiet, 301_000, 20), window(quiet, 602_000, 20)]).toEqual([wrong, wrong, wrong]);
  });
});

describe('LocalTimeObserver', () => {
  it('puts the time of an engine whose clock is behind on ours, replayed batches too, and begins anew with another life', () => {
    const { told, observer } = setUp();
    observer.onEvent(P0, batch(0, 1000, 4000), cleared);
    observer.onEvent(P0, batch(1, 500, 4100, true), cleared);
    observer.onEpoch(P0, { ended: 1, reason: 'x' });
    observer.onEvent(P0, batch(0, 9000, 9010), cleared);
    expect(told).toEqual(['cleared 0 at 4000', 'cleared 1 at 3500', 'epoch 1 ended', 'cleared 0 at 9000']);
  });

  it('leaves times alone that agree, or that there are none of', () => {
    const { told, observer } = setUp();
    observer.onEvent(P0, batch(0, 1000, 1003), cleared);
    observer.onEvent(P0, batch(1, undefined, 2000), cleared);
    expect(told).toEqual(['cleared 0 at 1000', 'cleared 1 at undefined']);
  });

  it('tells numbers without events as lost, once, and not those told before', () => {
    const { told, observer } = setUp();
    const first = batch(4, 1000, 1001);
    observer.onEvent(P0, first, cleared);
    observer.onEvent(P0, first, cleared);
    observer.onEvent(P0, batch(7, 1010, 1011), cleared);
    observer.onLost(P0, { from: 8, to: 9, epoch: 1 });
    observer.onEvent(P0, batch(10, 1020, 1021), cleared);
    expect(told).toEqual(['cleared 4 at 1000', 'cleared 4 at 1000', 'lost 5-6 of 1', 'cleared 7 at 1010', 'lost 8-9 of 1', 'cleared 10 at 1020']);
  });

  it('tells the batch of events that could not be read as lost, once', () => {
    const { told, observer } = setUp();
    const [first, second] = [batch(0, 1000, 1001), batch(1, 1010, 1011)];
    for (const context of [first, first, second]) observer.onEvent(P0, context, BAD);
    expect(told).toEqual(['lost 0-0 of 1', 'bad 0 at 1000', 'bad 0 at 1000', 'lost 1-1 of 1', 'bad 1 at 1010']);
  });

  it('tells nothing of a stream that is closed', () => {
    const { told, observer } = setUp();
    observer.onClose(P0);
    observer.onEvent(P0, batch(0, 1000, 1001), cleared);
    observer.onLost(P0, { from: 1, to: 2, epoch: 1 });
    observer.onEpoch(P0, { ended: 1, reason: 'x' });
    expect(told).toEqual(['close p0/0']);
  });
});
