/** The subscriber against the simulated engine: what its events say is resident is what its cache holds. */
import { afterEach, describe, expect, it } from 'vitest';
import { OPERATION_INPUTS } from '#shared/operations.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { KvEvents } from '#engine/kv-events/kv-events.ts';
import { silentLogger } from '#engine/log.ts';
import { requestReplay } from '#engine/kv-events/replay-client.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { P0, until } from './publisher.ts';

const closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function watched(options: Partial<SimInstanceOptions>): Promise<{ readonly sim: SimInstance; readonly events: KvEvents; readonly phases: readonly string[]; readonly view: () => KvStreamView }> {
  const sim = await startSimInstance({ role: 'both', speed: 200, blocks: 64, maxModelLen: 512, kvEvents: {}, ...options });
  closers.push(() => sim.close());
  const phases: string[] = [];
  const debug = (fields: object): void => {
    if ('phase' in fields && typeof fields.phase === 'string') phases.push(fields.phase);
  };
  const events = new KvEvents({ residentCapacity: 10_000, logger: { ...silentLogger, debug } });
  closers.push(() => events.close());
  if (sim.kvEvents === undefined) throw new Error('the simulator publishes nothing');
  events.attach(P0, sim.kvEvents);
  await until(() => events.streams().every((stream) => stream.state === 'silent'), 'connection');
  return {
    sim,
    events,
    phases,
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

function copies(events: KvEvents): number {
  const page = events.blocks(OPERATION_INPUTS['kv.blocks'].parse({ limit: 2000 }));
  return page.blocks.reduce((sum, block) => sum + block.copies, 0);
}

describe.each([
  { encoding: 'map', hashForm: 'int' },
  { encoding: 'array', hashForm: 'int' },
  { encoding: 'map', hashForm: 'bytes' },
] as const)('events as $encoding with $hashForm hashes', ({ encoding, hashForm }) => {
  it('leave exactly the blocks that the engine holds, through evictions, a reset and a restart', async () => {
    const { sim, events, phases, view } = await watched({ kvEvents: { encoding, hashForm } });
    await Promise.all(prompts.map((prompt) => complete(sim, prompt)));
    await until(() => view().batches === sim.publish.batches && copies(events) === sim.stats().residentBlocks, 'the same blocks');
    expect(view()).toMatchObject({ encoding, hashForm, gaps: 0, badMessages: 0, badEvents: 0, unknownFields: 0, unknownRemovals: 0, sawStart: true });
    expect(Array.from(events.log.rows()).some((row) => row.kind === 'removed')).toBe(true);
    const [block] = events.blocks(OPERATION_INPUTS['kv.blocks'].parse({ limit: 1 })).blocks;
    expect(block).toMatchObject({ medium: 'GPU', blockSize: 16 });
    expect(block?.tokens).toHaveLength(16);

    await fetch(`${sim.url}/reset_prefix_cache`, { method: 'POST' });
    await until(() => copies(events) === 0, 'an empty cache');
    expect(Array.from(events.log.rows()).at(-1)?.kind).toBe('cleared');

    await sim.restart();
    // Only then: what a publisher sends before its subscriber is back is lost.
    await until(() => phases.lastIndexOf('connected') > phases.indexOf('lost') && phases.includes('lost'), 'reconnection');
    await complete(sim, prompts[0] ?? '');
    await until(() => view().epochs === 2 && copies(events) === sim.stats().residentBlocks, 'the new life');
    expect(view().gaps).toBe(0);
  });
});

it('a gap in the events is counted, and the engine still has what was missed', async () => {
  const { sim, events, view } = await watched({});
  await complete(sim, 'one '.repeat(40));
  await sim.setFault('event-gap', 3);
  for (let round = 0; view().missedBatches < 3 && round < 50; round += 1) await complete(sim, `${round} `.repeat(40));
  await until(() => view().gaps === 1, 'the gap');
  expect(view().missedBatches).toBe(3);
  const gap = Array.from(events.log.rows()).find((row) => row.kind === 'gap');
  const [, from, to] = /\((\d+) to (\d+)\)/.exec(gap?.note ?? '') ?? [];
  const missed: number[] = [];
  const outcome = await requestReplay({
    endpoint: sim.kvEvents?.replayEndpoint ?? '',
    from: Number(from),
    onMessage: ({ frames: [, seq] }) => {
      const number = Number(Buffer.from(seq).readBigUInt64BE());
      missed.push(number);
      return number < Number(to);
    },
  });
  expect(outcome).toMatchObject({ status: 'stopped', messages: 3 });
  expect(missed).toEqual([Number(from), Number(from) + 1, Number(to)]);
});

it('each data-parallel rank has its own blocks', async () => {
  const { sim, events } = await watched({ dpSize: 2 });
  expect(events.streamsOf(P0.id)).toEqual(['p0/0', 'p0/1']);
  await Promise.all(prompts.slice(0, 6).map((prompt) => complete(sim, prompt)));
  await until(() => events.streams().reduce((sum, stream) => sum + stream.batches, 0) === sim.publish.batches, 'all batches');
  expect(copies(events)).toBe(sim.stats().residentBlocks);
  expect(events.streams().map((stream) => stream.stateReason)).toEqual([undefined, undefined]);
  expect(events.streams().every((stream) => stream.gaps === 0 && stream.events > 0)).toBe(true);
});
