import { describe, expect, it } from 'vitest';
import { BatchApplier } from '#engine/kv-events/batch-applier.ts';
import { hashCount, hashHex } from '#engine/kv-events/block-hashes.ts';
import type { KvEvent } from '#engine/kv-events/kv-event.ts';
import { ReuseAnnouncers } from '#engine/cache/reuse-announcers.ts';
import { IndexObserver } from '#engine/kv-index/index-observer.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import type { StreamBlocks } from '#engine/kv-index/stream-blocks.ts';
import { frames, vectors } from '../kv-events/golden.ts';
import { identity, removed, stored, tokens } from './events.ts';
import { checkBooks } from './invariants.ts';

const p0 = identity('p0');
const context = (seq: number, tsUnixMs: number | undefined): { readonly epoch: number; readonly seq: number; readonly tsUnixMs: number | undefined; readonly receivedAtUnixMs: number; readonly isReplayed: boolean } =>
  ({ epoch: 1, seq, tsUnixMs, receivedAtUnixMs: 5000, isReplayed: false });

function setUp(isReporting = false): { readonly index: KvIndex; readonly observer: IndexObserver; readonly blocks: StreamBlocks } {
  const index = new KvIndex({ capacity: 1000, historyCapacity: 1000 });
  const observer = new IndexObserver(index, { now: () => 9000, isReporting: () => isReporting });
  observer.onOpen(p0);
  const blocks = index.stream(p0.id);
  if (blocks === undefined) throw new Error('not opened');
  return { index, observer, blocks };
}

describe('IndexObserver', () => {
  it('dates blocks by the engine\'s clock, or by the receipt where it has none', () => {
    const { index, observer } = setUp();
    observer.onEvent(p0, context(0, 100), stored([1]));
    observer.onEvent(p0, context(1, undefined), stored([2], { parent: 1, tokens: [102, 103] }));
    const prompt = tokens(100, 101, 102, 103, 9);
    expect(index.prefix(prompt, { atUnixMs: 4999 }).paths[0]?.matches[0]?.blocks).toBe(1);
    expect(index.prefix(prompt, { atUnixMs: 5000 }).paths[0]?.matches[0]?.blocks).toBe(2);
  });

  it('notes what was before a late attach, once, until the time of the first batch', () => {
    const { observer, blocks } = setUp();
    observer.onEvent(p0, context(41, 100), stored([1]));
    observer.onEvent(p0, context(42, 110), stored([2]));
    expect(blocks.coverage.ranges).toEqual([{ cause: 'late_attach', epoch: 1, from: 0, to: 40, untilUnixMs: 100 }]);
  });

  it('notes gaps between the batches around them', () => {
    const { observer, blocks } = setUp();
    observer.onEvent(p0, context(0, 100), stored([1]));
    observer.onLost(p0, { from: 1, to: 3, epoch: 1 });
    expect(blocks.coverage.ranges).toEqual([{ cause: 'gap', epoch: 1, from: 1, to: 3, sinceUnixMs: 100 }]);
    observer.onEvent(p0, context(4, 140), removed([1]));
    expect(blocks.coverage.ranges).toEqual([{ cause: 'gap', epoch: 1, from: 1, to: 3, sinceUnixMs: 100, untilUnixMs: 140 }]);
  });

  it('does not take a gap at the beginning for a late attach too', () => {
    const { observer, blocks } = setUp();
    observer.onLost(p0, { from: 0, to: 3, epoch: 1 });
    observer.onEvent(p0, context(4, 140), stored([1]));
    expect(blocks.coverage.ranges).toEqual([{ cause: 'gap', epoch: 1, from: 0, to: 3, untilUnixMs: 140 }]);
  });

  it('notes what was before a batch that is lost first, and what was before it joined a later life', () => {
    const { observer, blocks } = setUp();
    observer.onLost(p0, { from: 5, to: 5, epoch: 1 });
    observer.onEvent(p0, context(6, 100), stored([1]));
    expect(blocks.coverage.ranges).toEqual([
      { cause: 'late_attach', epoch: 1, from: 0, to: 4, untilUnixMs: 100 }, { cause: 'gap', epoch: 1, from: 5, to: 5, untilUnixMs: 100 },
    ]);
    observer.onEpoch(p0, { ended: 1, reason: 'the engine keeps later batches only' });
    observer.onEvent(p0, { ...context(9, 200), epoch: 2 }, stored([2]));
    expect(blocks.coverage.ranges.slice(2)).toEqual([{ cause: 'late_attach', epoch: 2, from: 0, to: 8, sinceUnixMs: 100, untilUnixMs: 200 }]);
  });

  it('ends what a former life of the engine held, at the last that was heard of it', () => {
    const { index, observer, blocks } = setUp();
    observer.onEpoch(p0, { ended: 0, reason: 'first contact' });
    observer.onEvent(p0, context(0, 100), stored([1]));
    observer.onEpoch(p0, { ended: 1, reason: 'sequence went back' });
    expect(blocks.counts()).toEqual([{ medium: 'GPU', blocks: 0 }]);
    expect(blocks.epoch).toBe(2);
    expect(index.explain(tokens(100, 101, 9), p0.id).ranges[0]?.verdict).toMatchObject({ kind: 'reset', reason: 'restart', atUnixMs: 100 });
  });

  it('closes with the stream, and goes on with its history when it is opened again', () => {
    const { index, observer } = setUp();
    observer.onEvent(p0, context(0, 100), stored([1]));
    observer.onClose(p0);
    expect(index.size).toBe(0);
    expect(index.prefix(tokens(100, 101, 9)).paths).toEqual([]);
    observer.onEvent(p0, context(1, 110), stored([2]));
    expect(index.size).toBe(0);
    observer.onOpen(p0);
    observer.onEvent(p0, context(7, 9500), stored([1]));
    expect(index.prefix(tokens(100, 101, 9)).paths[0]?.matches).toMatchObject([{ blocks: 1, lost: { cause: 'late_attach', to: 6 } }]);
    expect(index.prefix(tokens(100, 101, 9), { atUnixMs: 150 }).paths[0]?.matches).toMatchObject([{ blocks: 1 }]);
    expect(index.prefix(tokens(100, 101, 9), { atUnixMs: 9200 }).paths[0]?.matches).toMatchObject([{ blocks: 0, lost: { cause: 'late_attach', to: 6 } }]);
  });

  it('counts announcements of reuse as hits, not as copies, where the engine is asked for them', () => {
    const { index, observer, blocks } = setUp(true);
    for (let time = 0; time < 3; time += 1) observer.onEvent(p0, context(time, 100 + time), stored([1, 2]));
    observer.onEvent(p0, context(3, 110), removed([1]));
    expect(blocks.counts()).toEqual([{ medium: 'GPU', blocks: 1 }]);
    expect(index.graph.holdings.hitsOf(1)).toBe(2);
    expect([blocks.announcedBlocks, blocks.duplicateStores, blocks.secondCopies.total]).toEqual([4, 0, 0]);
  });

  it('counts as copies what no announcement is: stores that go on from a parent, or into another tier', () => {
    const { observer, blocks } = setUp(true);
    const again = [stored([1]), stored([2], { parent: 1, tokens: [7, 8] }), stored([1], { medium: 'CPU' })];
    for (let time = 0; time < 2; time += 1) for (const event of again) observer.onEvent(p0, context(time, 100 + time), event);
    expect([blocks.announcedBlocks, blocks.duplicateStores, blocks.secondCopies.total]).toEqual([1, 2, 1]);
    for (const event of [removed([1]), removed([2]), removed([1], { medium: 'CPU' })]) observer.onEvent(p0, context(2, 110), event);
    expect(blocks.counts()).toEqual([{ medium: 'GPU', blocks: 1 }, { medium: 'CPU', blocks: 1 }]);
  });

  it('takes stores for announcements at the time of requests that ask for them only', () => {
    const index = new KvIndex({ capacity: 1000 });
    const announcers = new ReuseAnnouncers();
    announcers.ask(p0.instance, 1_000_000);
    const observer = new IndexObserver(index, { isReporting: ({ instance }, atUnixMs) => announcers.isAnnouncing(instance, atUnixMs) });
    const p1 = identity('p1');
    observer.onOpen(p0);
    observer.onOpen(p1);
    const counts = (of: typeof p0): readonly (number | undefined)[] => [index.stream(of.id)?.announcedBlocks, index.stream(of.id)?.duplicateStores];
    for (const [seq, ts] of [900_000, 901_000, 999_000, 1_500_000, 1_700_000].entries()) {
      observer.onEvent(p0, context(seq, ts), stored([1]));
      observer.onEvent(p1, context(seq, ts), stored([1]));
    }
    expect([counts(p0), counts(p1)]).toEqual([[2, 2], [0, 4]]);
  });

  it('indexes what every era of engines publishes: each golden frame, decoded and applied', () => {
    const index = new KvIndex({ capacity: 10_000, historyCapacity: 10_000 });
    const observer = new IndexObserver(index, { now: () => 9000 });
    const copies = new Map<string, number>();
    for (const [at, vector] of vectors.entries()) {
      const stream = identity(`g${at}`);
      observer.onOpen(stream);
      const applier = new BatchApplier({
        onEpoch: (change) => observer.onEpoch(stream, change),
        onNotice: () => undefined,
        onGap: () => false,
        onLost: (gap) => observer.onLost(stream, gap),
        onEvent: (batch, event) => {
          observer.onEvent(stream, batch, event);
          count(copies, `${at}`, event);
        },
      });
      applier.apply(frames(vector.frames_hex), { receivedAtUnixMs: 1000, isReconnected: false, droppedBefore: 0 });
    }
    checkBooks(index);
    expect(index.graph.conflicts).toBe(0);
    expect(index.size).toBe(copies.size);
    expect(index.size).toBeGreaterThan(100);
    expect(index.totals().nodes - index.totals().unplacedNodes).toBeGreaterThan(100);
  });
});

/** Copies by residency and hash, the plain way. */
function count(copies: Map<string, number>, stream: string, event: KvEvent): void {
  if (event.kind === 'cleared') for (const key of Array.from(copies.keys())) if (key.startsWith(`${stream} GPU`)) copies.delete(key);
  if (event.kind !== 'stored' && event.kind !== 'removed') return;
  for (let index = 0; index < hashCount(event.hashes); index += 1) {
    const key = `${stream} ${(event.medium ?? 'gpu').toUpperCase()} ${event.groupIdx} ${event.locality} ${event.ownership} ${hashHex(event.hashes, index).slice(-16)}`;
    const left = (copies.get(key) ?? 0) + (event.kind === 'stored' ? 1 : -1);
    if (left > 0) copies.set(key, left);
    else copies.delete(key);
  }
}
