import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { MissExplainer } from '#engine/cache/miss-explainer.ts';
import { OFF_REASON } from '#engine/cache/prompt-keeper.ts';
import { RecentStores } from '#engine/cache/recent-stores.ts';
import { ReuseAnnouncers } from '#engine/cache/reuse-announcers.ts';
import { IndexObserver } from '#engine/kv-index/index-observer.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { silentLogger } from '#engine/log.ts';
import type { LegRecord, RequestRecord } from '#engine/telemetry/request-record.ts';
import { identity, stored } from '../kv-index/events.ts';

interface Asked {
  readonly record: RequestRecord;
  readonly leg: LegRecord;
}

/** A request whose prompt no engine renders, so that it waits for the usage at its end. */
function ask(explainer: MissExplainer): Asked {
  const record = { id: 'r1', init: { api: 'forward', path: '/v1/messages', headers: {} }, legs: [], decisions: [], state: 'running', isOwnProbe: false, receivedMs: 0, elapsedMs: () => 10, touch: () => undefined } as unknown as RequestRecord;
  const leg = { kind: 'forward', record, instance: { id: 'b0', name: 'B0' }, rank: undefined, sentMs: 1, firstByteMs: 5, status: 200, outcome: 'running', usage: undefined } as unknown as LegRecord;
  Object.assign(record, { legs: [leg] });
  explainer.onParsed(record, Buffer.from('{"messages":[]}'));
  explainer.onAnswered(leg);
  return { record, leg };
}

function end({ record, leg }: Asked, explainer: MissExplainer): void {
  Object.assign(leg, { outcome: 'ok', endMs: 20 });
  Object.assign(record, { state: 'ok' });
  explainer.onEnded(record);
}

function setUp({ index = new KvIndex(), stores = new RecentStores({}) }: { readonly index?: KvIndex; readonly stores?: RecentStores } = {}): MissExplainer {
  return new MissExplainer({
    index, stores, announcers: new ReuseAnnouncers(), fleet: { get: () => undefined, list: () => [] },
    kvEvents: { streams: () => [], streamsOf: () => ['b0/0'] } as never, call: {} as never, text: {} as never,
    authorization: undefined, findings: { report: () => undefined }, logger: silentLogger, isOn: true,
  });
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it('leaves nobody waiting when it is switched off, whether the answer runs or has just ended', async () => {
  const explainer = setUp();
  const running = ask(explainer);
  const ended = ask(explainer);
  await vi.advanceTimersByTimeAsync(400);
  expect([running.record.why, ended.record.why]).toMatchObject([{ isPending: true, reason: expect.stringContaining('at the end of the answer') }, { isPending: true }]);
  end(ended, explainer);
  explainer.setOn(false);
  expect([running.record.why, ended.record.why]).toEqual([{ state: 'unavailable', reason: OFF_REASON, isPending: false }, { state: 'unavailable', reason: OFF_REASON, isPending: false }]);
  // Nor does it look at them again and again.
  end(running, explainer);
  await vi.advanceTimersByTimeAsync(1000);
  expect(vi.getTimerCount()).toBe(0);
  explainer.close();
});

it('explains at its end a request that waited for it', async () => {
  const explainer = setUp();
  const asked = ask(explainer);
  await vi.advanceTimersByTimeAsync(400);
  end(asked, explainer);
  await vi.advanceTimersByTimeAsync(400);
  expect(asked.record.why).toMatchObject({ isPending: false, reason: expect.stringContaining('nor do the events that followed: the instance has published no block with tokens') });
  explainer.close();
});

/** A prompt of five blocks of two tokens whose leg has told its usage, on a stream that has published before. */
function computed(): { readonly explainer: MissExplainer; readonly asked: Asked; readonly tell: () => void } {
  const index = new KvIndex();
  const stores = new RecentStores(new IndexObserver(index, { isReporting: () => false }));
  const stream = identity('b0');
  let seq = 0;
  const publish = (event: ReturnType<typeof stored>): void => stores.onEvent(stream, { seq: seq++, tsUnixMs: Date.now(), receivedAtUnixMs: Date.now(), epoch: 1, isReplayed: false }, event);
  stores.onOpen(stream);
  publish(stored([77], { tokens: [7, 7] }));
  vi.advanceTimersByTime(60_000);
  const explainer = setUp({ index, stores });
  const asked = ask(explainer);
  Object.assign(asked.leg, { usage: { promptTokens: 11, cachedTokens: 0 } });
  end(asked, explainer);
  return { explainer, asked, tell: () => publish(stored([1, 2, 3, 4, 5])) };
}

it('waits for a slow stream to tell what was computed, and explains it from that', async () => {
  const { explainer, asked, tell } = computed();
  await vi.advanceTimersByTimeAsync(3000);
  expect(asked.record.why).toMatchObject({ isPending: true });
  tell();
  await vi.advanceTimersByTimeAsync(400);
  expect(asked.record.why).toMatchObject({ state: 'ready', report: { tokensFrom: 'events', promptTokens: 11, ranges: [{ kind: 'never-stored', tokens: 10 }, { kind: 'partial-block' }] } });
  explainer.close();
});

it('concludes nothing from a part of the events, however long it waited', async () => {
  const { explainer, asked } = computed();
  await vi.advanceTimersByTimeAsync(4900);
  expect(asked.record.why).toMatchObject({ isPending: true });
  await vi.advanceTimersByTimeAsync(400);
  expect(asked.record.why).toMatchObject({ state: 'unavailable', isPending: false, reason: expect.stringContaining('the stream had not told what was computed 5 s later') });
  await vi.advanceTimersByTimeAsync(400);
  expect(vi.getTimerCount()).toBe(0);
  explainer.close();
});
