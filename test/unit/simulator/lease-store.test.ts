import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Block } from '#engine/simulator/kv-cache.ts';
import { digestTokens, LeaseStore, type OpenRequest } from '#engine/simulator/transfer/lease-store.ts';

const TOKENS = [5, 6, 7, 8];
const blocks = (...ids: number[]): Block[] => ids.map((id) => ({ id, refs: 1, hash: undefined, isGarbage: false, previous: undefined, next: undefined }));
const kept = (...ids: number[]) => ({ blocks: blocks(...ids), tokens: TOKENS, isGarbage: false, forMs: 100 });
const asking = (extra: Partial<OpenRequest> = {}): OpenRequest => ({
  key: 'k', blockIds: [], check: { tokens: 3, digest: digestTokens(TOKENS, 3) }, waitMs: 0, isRegistration: false, ...extra,
});
const stays = (): AbortSignal => new AbortController().signal;

describe('LeaseStore', () => {
  let released: number[] = [];
  let expired = 0;
  let store: LeaseStore;
  beforeEach(() => {
    vi.useFakeTimers();
    released = [];
    expired = 0;
    store = new LeaseStore({
      release: (list) => released.push(...list.map(({ id }) => id)),
      onExpired: () => {
        expired += 1;
      },
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('counts what it pins, and works once per key', async () => {
    store.keep('k', kept(1, 2));
    store.keep('other', kept(3));
    expect([store.count, store.pinnedBlocks]).toEqual([2, 3]);
    expect(await store.open(asking({ blockIds: [2] }), stays())).toEqual({ isOk: true, isGarbage: false });
    expect(store.done('k')).toEqual({ isOk: true });
    expect(released).toEqual([1, 2]);
    expect(store.done('k').isOk).toBe(false);
    expect((await store.open(asking(), stays())).isOk).toBe(false);
    expect([store.count, store.pinnedBlocks]).toEqual([1, 1]);
  });

  it('compares what is copied with what the consumer believes', async () => {
    store.keep('k', kept(1));
    const opened = async (tokens: readonly number[], count: number): Promise<unknown> => store.open(asking({ check: { tokens: count, digest: digestTokens(tokens, count) } }), stays());
    expect(await opened([5, 6, 9], 3)).toEqual({ isOk: true, isGarbage: true });
    expect(await opened([5, 6, 9], 2)).toEqual({ isOk: true, isGarbage: false });
    expect(await opened([...TOKENS, 9], 5)).toEqual({ isOk: true, isGarbage: true });
    store.keep('k', { ...kept(2), isGarbage: true });
    expect(await opened(TOKENS, 3)).toEqual({ isOk: true, isGarbage: true });
  });

  it('ends a lease in time, later when it is renewed', () => {
    store.keep('k', kept(1));
    vi.advanceTimersByTime(80);
    expect(store.heartbeat('k').isOk).toBe(true);
    vi.advanceTimersByTime(80);
    expect(store.count).toBe(1);
    vi.advanceTimersByTime(21);
    expect([store.count, expired, released]).toEqual([0, 1, [1]]);
  });

  it('a key kept twice loses its first blocks', () => {
    store.keep('k', kept(1));
    store.keep('k', kept(2));
    expect([released, store.pinnedBlocks]).toEqual([[1], 1]);
    vi.advanceTimersByTime(100);
    expect(released).toEqual([1, 2]);
  });

  it('lets all waiters of a key in, and refuses those whose time is over', async () => {
    const early = store.open(asking({ waitMs: 10 }), stays());
    const [one, two] = [store.open(asking({ waitMs: 1000 }), stays()), store.open(asking({ waitMs: 1000 }), stays())];
    vi.advanceTimersByTime(11);
    expect(await early).toMatchObject({ isOk: false, reason: expect.stringContaining('within 10 ms') });
    store.keep('k', kept(1));
    expect(await Promise.all([one, two])).toEqual([{ isOk: true, isGarbage: false }, { isOk: true, isGarbage: false }]);
  });

  it('forgets a waiter that left, unless it had registered: then the blocks go as soon as they come, once', async () => {
    for (const isRegistration of [false, true]) {
      const leave = new AbortController();
      const waiting = store.open(asking({ key: String(isRegistration), waitMs: 1000, isRegistration }), leave.signal);
      leave.abort();
      expect((await waiting).isOk).toBe(false);
      store.keep(String(isRegistration), kept(1));
    }
    expect([store.count, released]).toEqual([1, [1]]);
    store.keep('true', kept(2));
    expect(store.count).toBe(2);
  });

  it('a registration that nobody answered is over at its deadline', async () => {
    const leave = new AbortController();
    const waiting = store.open(asking({ waitMs: 50, isRegistration: true }), leave.signal);
    leave.abort();
    await waiting;
    vi.advanceTimersByTime(51);
    store.keep('k', kept(1));
    expect(store.count).toBe(1);
  });

  it('closing frees all and refuses all', async () => {
    store.keep('k', kept(1));
    const waiting = store.open(asking({ key: 'later', waitMs: 1000 }), stays());
    store.close();
    expect(await waiting).toEqual({ isOk: false, reason: 'the engine is gone' });
    expect([store.count, released]).toEqual([0, [1]]);
    expect((await store.open(asking({ key: 'x', waitMs: 1000 }), stays())).isOk).toBe(false);
  });
});
