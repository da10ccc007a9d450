import { describe, expect, it } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import type { KvRow } from '#shared/kv.ts';
import type { ChannelData } from '#shared/wire.ts';
import { RowStore } from '../../../renderer/src/stores/row-store.ts';
import { FakeTransport } from '../fixtures/fake-transport.ts';

const row = (n: number): KvRow => ({ n }) as KvRow;
const data = (numbers: readonly number[], omitted = 0): ChannelData['kv'] => ({
  rows: numbers.map(row),
  counters: { total: Math.max(0, ...numbers), kept: numbers.length, evicted: 0, dropped: 0, matching: numbers.length },
  omitted,
});

/** Resolves when the store published a view that satisfies `isWanted`; the test's deadline is the limit. */
function published<T>(store: { readonly get: () => T; readonly subscribe: (listener: () => void) => () => void }, isWanted: (view: T) => boolean): Promise<T> {
  return new Promise((resolve) => {
    const check = (): void => {
      if (!isWanted(store.get())) return;
      stop();
      resolve(store.get());
    };
    const stop = store.subscribe(check);
    check();
  });
}

describe('RowStore', () => {
  it('takes rows out that ceased to match the filter', async () => {
    const transport = new FakeTransport();
    const store = new RowStore(transport, 'requests', 100);
    store.open('state:running');
    const { handler } = transport.subscription('requests');
    const requests = (numbers: readonly number[]): ChannelData['requests'] => data(numbers) as unknown as ChannelData['requests'];
    handler.onSnapshot(requests([1, 2, 3]), { skipped: 0 });
    handler.onDelta({ ...requests([4]), unmatched: [1, 3] });
    const view = await published(store, ({ rows }) => rows.at(-1)?.n === 4);
    expect(view.rows.map((one) => one.n)).toEqual([2, 4]);
    store.close();
  });

  it('shows rows with the counters of the same instant and adds up what was omitted', async () => {
    const transport = new FakeTransport();
    const store = new RowStore(transport, 'kv', 4);
    store.open('type:stored');
    expect(store.get().status).toBe('loading');
    const { options, handler } = transport.subscription('kv');
    expect(options).toEqual({ filter: 'type:stored', limit: 4 });
    handler.onSnapshot(data([1, 2]), { skipped: 0 });
    handler.onDelta(data([3, 4, 5], 10));
    handler.onDelta(data([6], 2));
    const view = await published(store, (one) => one.counters?.total === 6);
    expect(view.rows.map((one) => one.n)).toEqual([3, 4, 5, 6]);
    expect(view).toMatchObject({ status: 'live', omitted: 12, resyncs: 0, skippedSnapshots: 0, paused: undefined });
    store.close();
    expect(transport.subscriptions.size).toBe(0);
  });

  it('goes on recording while paused and says how full the buffer is', async () => {
    const transport = new FakeTransport();
    const store = new RowStore(transport, 'kv', 4);
    store.open('');
    const { handler } = transport.subscription('kv');
    handler.onSnapshot(data([1, 2]), { skipped: 0 });
    await published(store, (view) => view.rows.length === 2);
    store.setPaused(true);
    handler.onDelta(data([3]));
    let view = await published(store, (one) => one.paused?.arrived === 1);
    expect(view.rows.map((one) => one.n)).toEqual([1, 2]);
    expect(view).toMatchObject({ status: 'paused', paused: { arrived: 1, held: 1, capacity: 4 } });
    handler.onDelta(data([4, 5, 6, 7, 8]));
    view = await published(store, (one) => one.paused?.arrived === 6);
    expect(view.paused).toEqual({ arrived: 6, held: 4, capacity: 4 });
    expect(view.counters?.total).toBe(2);
    store.setPaused(false);
    expect(store.get().rows.map((one) => one.n)).toEqual([5, 6, 7, 8]);
    expect(store.get()).toMatchObject({ status: 'live', counters: { total: 8 } });
  });

  it('keeps the old rows under a new filter until its snapshot is here', async () => {
    const transport = new FakeTransport();
    const store = new RowStore(transport, 'kv', 10);
    store.open('');
    transport.subscription('kv').handler.onSnapshot(data([1, 2, 3]), { skipped: 0 });
    await published(store, (view) => view.rows.length === 3);
    store.open('type:removed');
    const loading = await published(store, (view) => view.status === 'loading');
    expect(loading.rows).toHaveLength(3);
    expect(loading.filter).toBe('');
    expect(transport.subscriptions.size).toBe(1);
    transport.subscription('kv').handler.onSnapshot(data([2]), { skipped: 0 });
    const view = await published(store, (one) => one.status === 'live');
    expect(view.rows.map((one) => one.n)).toEqual([2]);
    expect(view.filter).toBe('type:removed');
  });

  it('shows the answer to a filter that is changed while paused', async () => {
    const transport = new FakeTransport();
    const store = new RowStore(transport, 'kv', 10);
    store.open('');
    transport.subscription('kv').handler.onSnapshot(data([1, 2, 3]), { skipped: 0 });
    store.setPaused(true);
    store.open('type:removed');
    const { handler } = transport.subscription('kv');
    handler.onSnapshot(data([2]), { skipped: 0 });
    handler.onDelta(data([4]));
    const view = await published(store, (one) => one.paused?.arrived === 1);
    expect(view.rows.map((one) => one.n)).toEqual([2]);
    expect(view.status).toBe('paused');
  });

  it('counts resyncs and skipped frames over all its subscriptions', async () => {
    const transport = new FakeTransport();
    const store = new RowStore(transport, 'kv', 10);
    store.open('');
    const { handler } = transport.subscription('kv');
    handler.onSnapshot(data([1]), { skipped: 2 });
    handler.onStale('resync');
    handler.onSnapshot(data([1, 2]), { skipped: 0 });
    handler.onSnapshot(data([1, 2, 3]), { skipped: 5 });
    const view = await published(store, (one) => one.rows.length === 3);
    expect(view).toMatchObject({ resyncs: 1, skippedSnapshots: 7 });
    handler.onStale('disconnected');
    const stale = await published(store, (one) => one.status === 'disconnected');
    expect(stale.rows).toHaveLength(3);
  });

  it('hands on why the engine rejected a filter', async () => {
    const transport = new FakeTransport();
    const store = new RowStore(transport, 'kv', 10);
    store.open('nope:1');
    transport.subscription('kv').handler.onRejected(new PdscopeError('filter_invalid', 'nope is not a field'));
    const view = await published(store, (one) => one.status === 'rejected');
    expect(view.error?.message).toBe('nope is not a field');
  });

  it('forgets rows when the engine cleared its ring', async () => {
    const transport = new FakeTransport();
    const store = new RowStore(transport, 'kv', 10);
    store.open('');
    const { handler } = transport.subscription('kv');
    handler.onSnapshot(data([1, 2]), { skipped: 0 });
    handler.onDelta({ ...data([3]), cleared: true });
    const view = await published(store, (one) => one.counters?.total === 3);
    expect(view.rows.map((one) => one.n)).toEqual([3]);
  });
});
