/** The subscriber against the simulated engine: what its events say is resident is what its cache holds. */
import { afterEach, describe, expect, it } from 'vitest';
import { OPERATION_INPUTS } from '#shared/operations.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { KvEvents } from '#engine/kv-events/kv-events.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import type { KvIndex } from '#engine/kv-index/kv-index.ts';
import { P0, indexed, until } from './publisher.ts';

const closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function watched(options: Partial<SimInstanceOptions>): Promise<{ readonly sim: SimInstance; readonly events: KvEvents; readonly index: KvIndex; readonly view: () => KvStreamView }> {
  const sim = await startSimInstance({ role: 'both', speed: 200, blocks: 64, maxModelLen: 512, kvEvents: {}, ...options });
  closers.push(() => sim.close());
  const { books, observer } = indexed();
  const events = new KvEvents({ books, observer });
  closers.push(() => events.close());
  if (sim.kvEvents === undefined) throw new Error('the simulator publishes nothing');
  events.attach(P0, sim.kvEvents);
  await until(() => events.streams().every((stream) => stream.state === 'silent') && sim.publish.subscriptions === events.streams().length, 'connection');
  return {
    sim,
    events,
    index: books,
    view: () => {
      const [stream] = events.streams();
      if (stream === undefined) throw new Error('no stream');
      return stream;
    },
  };
}

async function complete(sim: SimInstance, prompt: string): Promise<void> {
  const response = await fetch(`${sim.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: sim.model, prompt, max_tokens: 24 }),
  });
  const body = await response.text();
  if (response.status !== 200) throw new Error(`${response.status} ${body}`);
}

/** Prompts that share beginnings, and more of them than the cache can hold. */
const prompts = Array.from({ length: 24 }, (_, index) => `${'You are a helpful assistant. '.repeat(8)}${`Question ${index % 9} of many. `.repeat(12)}`);

function copies(index: KvIndex): number {
  const page = index.blocks(OPERATION_INPUTS['kv.blocks'].parse({ limit: 2000 }));
  return page.blocks.reduce((sum, block) => sum + block.copies, 0);
}

describe.each([
  { encoding: 'map', hashForm: 'int' },
  { encoding: 'array', hashForm: 'int' },
  { encoding: 'map', hashForm: 'bytes' },
] as const)('events as $encoding with $hashForm hashes', ({ encoding, hashForm }) => {
  it('leave exactly the blocks that the engine holds, through evictions, a reset and a restart', async () => {
    const { sim, events, index, view } = await watched({ kvEvents: { encoding, hashForm } });
    await Promise.all(prompts.map((prompt) => complete(sim, prompt)));
    await until(() => view().batches === sim.publish.batches && copies(index) === sim.stats().residentBlocks, 'the same blocks');
    expect(view()).toMatchObject({ encoding, hashForm, gaps: 0, badMessages: 0, badEvents: 0, unknownFields: 0, unknownRemovals: 0, sawStart: true });
    expect(Array.from(events.log.rows()).some((row) => row.kind === 'removed')).toBe(true);
    const [block] = index.blocks(OPERATION_INPUTS['kv.blocks'].parse({ limit: 1 })).blocks;
    expect(block).toMatchObject({ medium: 'GPU', blockSize: 16 });
    expect(block?.tokens).toHaveLength(16);

    await fetch(`${sim.url}/reset_prefix_cache`, { method: 'POST' });
    await until(() => copies(index) === 0, 'an empty cache');
    expect(Array.from(events.log.rows()).at(-1)?.kind).toBe('cleared');

    await sim.restart();
    // Only then: what a publisher sends before its subscriber is back is lost.
    await until(() => sim.publish.subscriptions > 0 && view().state !== 'lost', 'reconnection');
    await complete(sim, prompts[0] ?? '');
    await until(() => view().epochs === 2 && copies(index) === sim.stats().residentBlocks, 'the new life');
    expect(view().gaps).toBe(0);
  });
});

describe.each(['topic', 'bare'] as const)('replay in the %s layout', (replayLayout) => {
  it('fills gaps, so that the blocks are exactly those that the engine holds', async () => {
    const { sim, events, index, view } = await watched({ kvEvents: { replayLayout } });
    await complete(sim, 'one '.repeat(40));
    await sim.setFault('event-gap', 3);
    for (let round = 0; view().missedBatches < 3 && round < 50; round += 1) await complete(sim, `${round} `.repeat(40));
    await until(() => view().missedFilled === 3 && view().confidence === 1 && copies(index) === sim.stats().residentBlocks, 'the same blocks');
    expect(view()).toMatchObject({ gaps: 1, gapsFilled: 1, missedBatches: 3, missedLost: 0, sawStart: true, confidence: 1, reasons: [] });
    expect(view().replay).toMatchObject({ state: 'idle', layout: replayLayout, failed: 0 });
    expect(view().coverage).toMatchObject({ lost: 0, unseen: 0, share: 1 });
    const rows = Array.from(events.log.rows());
    const gapAt = rows.findIndex((row) => row.kind === 'gap');
    const filledAt = rows.findIndex((row, index) => row.kind === 'filled' && index > gapAt);
    expect(rows[gapAt]?.note).toMatch(/^3 batches \(\d+ to \d+\) are missing; asking for them$/);
    expect(rows[filledAt]?.note).toMatch(/^3 batches \(\d+ to \d+\) came by replay$/);
    const seqs = rows.flatMap((row) => (row.kind === 'stored' || row.kind === 'removed' ? [row.seq ?? -1] : []));
    expect(seqs).toEqual(seqs.toSorted((one, other) => one - other));
    expect(new Set(seqs).size).toBe((view().lastSeq ?? 0) + 1);
  });

  it('joins late without missing anything, and follows the engine into its next life', async () => {
    const sim = await startSimInstance({ role: 'both', speed: 200, blocks: 64, maxModelLen: 512, kvEvents: { replayLayout } });
    closers.push(() => sim.close());
    await Promise.all(prompts.map((prompt) => complete(sim, prompt)));
    const observed: unknown[] = [];
    const { books: index, observer } = indexed();
    const onEpoch = observer.onEpoch?.bind(observer);
    observer.onEpoch = (stream, change) => {
      observed.push([stream.id, change.ended]);
      onEpoch?.(stream, change);
    };
    const events = new KvEvents({ books: index, observer });
    closers.push(() => events.close());
    if (sim.kvEvents === undefined) throw new Error('the simulator publishes nothing');
    events.attach(P0, sim.kvEvents);
    const view = (): KvStreamView => events.streams()[0] ?? (() => { throw new Error('no stream'); })();
    await until(() => view().batches > 0 && view().confidence === 1 && copies(index) === sim.stats().residentBlocks, 'the same blocks');
    expect(view()).toMatchObject({ sawStart: true, confidence: 1, gaps: 0 });
    expect(view().lagMs).toBeUndefined();

    // The new life says nothing before it is asked: only the replay can tell that the blocks are gone.
    await sim.restart();
    await until(() => view().epochs === 2 && view().state !== 'lost', 'the new life');
    expect(copies(index)).toBe(0);
    expect(observed).toEqual([['p0/0', 1]]);
    // Many batches at once: most of them before the subscription is through.
    await Promise.all(prompts.map((prompt) => complete(sim, prompt)));
    await until(() => view().confidence === 1 && copies(index) === sim.stats().residentBlocks, 'the blocks of the new life');
    expect(view()).toMatchObject({ epochs: 2, sawStart: true, missedLost: 0, confidence: 1 });
  });
});

it('a gap that nothing can fill is lost, and takes away confidence', async () => {
  const { sim, view } = await watched({ kvEvents: { replay: false } });
  await complete(sim, 'one '.repeat(40));
  await sim.setFault('event-gap', 3);
  for (let round = 0; view().missedBatches < 3 && round < 50; round += 1) await complete(sim, `${round} `.repeat(40));
  await until(() => view().gaps === 1, 'the gap');
  expect(view()).toMatchObject({ missedBatches: 3, missedFilled: 0, missedLost: 3, gapsFilled: 0, replay: { state: 'none' } });
  expect(view().reasons?.map(({ code }) => code)).toEqual(['batches-lost']);
  expect(view().confidence).toBeLessThan(1);
  await fetch(`${sim.url}/reset_prefix_cache`, { method: 'POST' });
  await until(() => view().confidence === 1, 'a cache known to be empty');
});

it('an engine killed, restarted and gapped, again and again, is followed to the last block', async () => {
  const { sim, events, index, view } = await watched({});
  for (let round = 0; round < 5; round += 1) {
    await Promise.all(prompts.slice(round, round + 12).map((prompt) => complete(sim, prompt)));
    await sim.setFault('event-gap', round + 1);
    await Promise.all(prompts.slice(12).map((prompt) => complete(sim, `${round} ${prompt}`)));
    await sim.setFault('none');
    if (round % 2 === 0) continue;
    const { epochs } = view();
    await sim.restart();
    // At once: what is sent before the subscription stands is there for the replay only.
    await Promise.all(prompts.slice(0, 6).map((prompt) => complete(sim, prompt)));
    await until(() => view().epochs > epochs, 'the next life');
  }
  // Something behind the last gap, so that it shows.
  await complete(sim, 'last '.repeat(40));
  await until(() => copies(index) === sim.stats().residentBlocks && view().confidence === 1, 'the same blocks');
  expect(view()).toMatchObject({ epochs: 3, sawStart: true, confidence: 1, badMessages: 0, unknownRemovals: 0, state: 'live', coverage: { lost: 0, unseen: 0, share: 1 } });
  expect(view().gaps).toBeGreaterThan(0);
  expect((view().missedFilled ?? 0) + (view().missedLost ?? 0)).toBe(view().missedBatches);
  const rows = Array.from(events.log.rows());
  expect(rows.filter(({ kind }) => kind === 'restart')).toHaveLength(2);
  for (let epoch = 1; epoch <= 3; epoch += 1) {
    const seqs = rows.flatMap((row) => (row.epoch === epoch && (row.kind === 'stored' || row.kind === 'removed') ? [row.seq ?? -1] : []));
    expect(seqs).toEqual(seqs.toSorted((one, other) => one - other));
    expect(new Set(seqs).size).toBe((seqs.at(-1) ?? 0) + 1);
  }
});

it('each data-parallel rank has its own blocks', async () => {
  const { sim, events, index } = await watched({ dpSize: 2 });
  expect(events.streamsOf(P0.id)).toEqual(['p0/0', 'p0/1']);
  await Promise.all(prompts.slice(0, 6).map((prompt) => complete(sim, prompt)));
  await until(() => events.streams().reduce((sum, stream) => sum + stream.batches, 0) === sim.publish.batches, 'all batches');
  expect(copies(index)).toBe(sim.stats().residentBlocks);
  expect(events.streams().map((stream) => stream.stateReason)).toEqual([undefined, undefined]);
  expect(events.streams().every((stream) => stream.gaps === 0 && stream.events > 0)).toBe(true);
});
