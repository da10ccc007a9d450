/**
 * Whole streams over made-up engines and networks: what the index holds after any interleaving of stores, removals, resets,
 * restarts, losses, repeats and replays is what a naive model holds that was told the same batches in the engine's order.
 * Everything between the socket and the index is real: queue, decoder, tracker, gap filler, applier, observer.
 */
import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { DecodePump } from '#engine/kv-events/decode-pump.ts';
import { FrameRing } from '#engine/kv-events/frame-ring.ts';
import { IntakeTurn } from '#engine/kv-events/intake-turn.ts';
import type { KvObserver } from '#engine/kv-events/kv-observer.ts';
import { KvRowLog } from '#engine/kv-events/kv-row-log.ts';
import { KvStream } from '#engine/kv-events/kv-stream.ts';
import { SharedBindings } from '#engine/kv-events/shared-bindings.ts';
import { IndexObserver } from '#engine/kv-index/index-observer.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { EngineBuffer, Model, Network, type ReplayMode, type Sent } from '../kv-events/lives.ts';
import { identity } from './events.ts';
import { checkBooks } from './invariants.ts';
import { NaiveStream } from './naive-model.ts';
import { BLOCK, contentOf, hashOf, named, pathTo, promptArb, tokensOf, type Form } from './world.ts';

const STREAMS = 2;
const placeArb = fc.record({ medium: fc.constantFrom('GPU', 'GPU', 'CPU'), group: fc.constantFrom(0, 0, 1) });
const formArb = fc.constantFrom<Form>('int', 'int', 'signed', 'bytes');

const changeArb = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('store' as const), prompt: promptArb, from: fc.constantFrom(0, 0, 1), count: fc.integer({ min: 1, max: 4 }), form: formArb, place: placeArb, isNamed: fc.boolean() }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('remove' as const), prompt: promptArb, block: fc.nat(4), form: formArb, place: placeArb, isNamed: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear' as const), isNamed: fc.boolean() }) },
);
/** Says where a stream is, after everything else. */
const LAST: Change = { kind: 'store', prompt: { blocks: [2], lora: undefined, salt: undefined }, from: 0, count: 1, form: 'int', place: { medium: 'GPU', group: 0 }, isNamed: true };
type Change = typeof changeArb extends fc.Arbitrary<infer T> ? T : never;

const modeArb = fc.oneof(
  { weight: 3, arbitrary: fc.constant<ReplayMode>({ kind: 'complete' }) },
  fc.record({ kind: fc.constant('partial' as const), replies: fc.nat(6) }),
  fc.constant<ReplayMode>({ kind: 'none' }),
);
const stepArb = fc.record({
  stream: fc.nat(STREAMS - 1),
  /** Turns of the event loop before the next step, where steps do not wait for rest. */
  turns: fc.nat(3),
  what: fc.oneof(
    { weight: 9, arbitrary: fc.record({ kind: fc.constant('batch' as const), changes: fc.array(changeArb, { minLength: 1, maxLength: 3 }), arrivals: fc.constantFrom(0, 1, 1, 1, 2) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const), sentBefore: fc.array(changeArb, { maxLength: 3 }) }) },
    { weight: 1, arbitrary: fc.constant({ kind: 'reconnect' as const }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('mode' as const), mode: modeArb }) },
  ),
});
type Step = typeof stepArb extends fc.Arbitrary<infer T> ? T : never;
const runArb = { steps: fc.array(stepArb, { minLength: 1, maxLength: 50 }), capacity: fc.constantFrom(2, 5, 1000), queue: fc.constantFrom(3, 10_000) };

/** One engine, its network, and how its batches change a naive cache. */
class Side {
  readonly engine: EngineBuffer;
  readonly network: Network;
  readonly model: Model;
  readonly name: string;
  readonly #changes = new Map<string, readonly Change[]>();
  readonly #byTs = new Map<number, Sent>();

  constructor(name: string, capacity: number) {
    this.name = name;
    this.engine = new EngineBuffer(capacity);
    this.network = new Network(this.engine);
    this.model = new Model(this.engine);
  }

  readonly publish = (changes: readonly Change[]): Sent => {
    const sent = this.engine.publish(changes.map((change) => wire(change, this.#seed(this.engine.life))));
    this.#changes.set(`${sent.life} ${sent.seq}`, changes);
    this.#byTs.set(sent.ts * 1000, sent);
    return sent;
  };

  /** The batch with that timestamp, ms. */
  sentAt(tsUnixMs: number): Sent {
    const sent = this.#byTs.get(tsUnixMs);
    if (sent === undefined) throw new Error(`no batch was sent at ${tsUnixMs}`);
    return sent;
  }

  /** What the engine holds: every batch of its current life. */
  truth(): ReadonlyMap<string, number> {
    const naive = new NaiveStream();
    for (const sent of this.#byTs.values()) if (sent.life === this.engine.life) this.replay(naive, sent);
    return naive.copies();
  }

  replay(naive: NaiveStream, { life, seq }: { readonly life: number; readonly seq: number }): void {
    for (const change of this.#changes.get(`${life} ${seq}`) ?? []) tell(naive, change, this.#seed(life));
  }

  /** Every life names the same content differently. */
  #seed(life: number): string {
    return `${this.name} ${life}`;
  }
}

class Run {
  readonly index = new KvIndex({ capacity: 1000, historyCapacity: 1000, tokenBytes: 1 << 20 });
  readonly sides: readonly Side[];
  readonly streams: readonly KvStream[];
  /** Told by the observer: batches by their timestamp, and restarts as `undefined`. */
  readonly told = Array.from({ length: STREAMS }, (): (number | undefined)[] => []);
  readonly #pump: DecodePump;

  constructor({ capacity, queue }: { readonly capacity: number; readonly queue: number }) {
    this.#pump = new DecodePump({ messages: queue, bytes: 1e9 });
    const shared = { pump: this.#pump, intake: new IntakeTurn(), replayTurn: new IntakeTurn(2), log: new KvRowLog({ capacity: 1, maxBytes: 1, dropped: () => 0 }), frames: new FrameRing({ maxBytes: 1 << 12 }) };
    const index = new IndexObserver(this.index);
    this.sides = Array.from({ length: STREAMS }, (_, at) => new Side(`p${at}`, capacity));
    this.streams = this.sides.map(({ name, network }, at) => new KvStream({
      ...shared,
      identity: identity(name), endpoint: 'tcp://127.0.0.1:1', mode: 'connect', topic: '', replay: 'tcp://127.0.0.1:2', bindings: new SharedBindings(), books: this.index,
      observer: this.#listen(index, this.told[at] ?? []), onGap: () => undefined, onPhase: () => undefined,
      subscribe: network.subscribe, request: network.request, replayLimits: { pauseMs: 0, backOffMs: 0, maxFillMs: 5000 },
    }));
    for (const stream of this.streams) stream.open();
  }

  /** Resolves once nothing is queued and no replay runs. */
  async rest(): Promise<void> {
    do await turn(); while (this.#pump.queuedMessages > 0 || this.streams.some((stream) => stream.view().replay?.state === 'asking'));
  }

  async close(): Promise<void> {
    await Promise.all(this.streams.map((stream) => stream.close()));
  }

  /** Copies of each block held, as the naive model names them. */
  held(at: number): ReadonlyMap<string, number> {
    const { holdings } = this.index.graph;
    const found = new Map<string, number>();
    for (const { era, medium, groupIdx } of this.index.stream(identity(this.sides[at]?.name ?? '').id)?.residencies ?? []) {
      for (const slot of holdings.slotsOf(era)) found.set(`${medium} ${groupIdx} ${(BigInt(holdings.highOf(slot)) << 32n) | BigInt(holdings.lowOf(slot))}`, holdings.copiesOf(slot));
    }
    return found;
  }

  #listen(index: KvObserver, told: (number | undefined)[]): KvObserver {
    return {
      onOpen: (stream) => index.onOpen?.(stream),
      onClose: (stream) => index.onClose?.(stream),
      onLost: (stream, gap) => index.onLost?.(stream, gap),
      onEpoch: (stream, change) => {
        told.push(undefined);
        index.onEpoch?.(stream, change);
      },
      onEvent: (stream, context, event) => {
        if (told.at(-1) !== context.tsUnixMs) told.push(context.tsUnixMs);
        index.onEvent?.(stream, context, event);
      },
    };
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A change as an engine puts it on the wire, in either encoding. */
function wire(change: Change, seed: string): unknown {
  if (change.kind === 'clear') return change.isNamed ? { type: 'AllBlocksCleared' } : ['AllBlocksCleared'];
  const { prompt, form, place: { medium, group }, isNamed } = change;
  const nameOf = (index: number): bigint | Uint8Array => named(seed, pathTo(prompt, index), form);
  if (change.kind === 'remove') {
    const hashes = [nameOf(Math.min(change.block, prompt.blocks.length - 1))];
    return isNamed ? { type: 'BlockRemoved', block_hashes: hashes, medium, group_idx: group } : ['BlockRemoved', hashes, medium, group];
  }
  const indexes = storedBlocks(change);
  const [first = 0] = indexes;
  const fields = {
    block_hashes: indexes.map(nameOf), parent_block_hash: first === 0 ? null : nameOf(first - 1), token_ids: indexes.flatMap((index) => tokensOf(prompt.blocks[index] ?? 0)), block_size: BLOCK,
    lora_id: null, medium, lora_name: prompt.lora ?? null,
    extra_keys: indexes.map((index) => [...(prompt.lora === undefined ? [] : [prompt.lora]), ...(index === 0 && prompt.salt !== undefined ? [prompt.salt] : [])]),
    group_idx: group,
  };
  return isNamed ? { type: 'BlockStored', ...fields } : ['BlockStored', ...Object.values(fields)];
}

function tell(naive: NaiveStream, change: Change, seed: string): void {
  if (change.kind === 'clear') {
    naive.reset('cleared', 0);
    return;
  }
  const { prompt, place } = change;
  const residency = `${place.medium} ${place.group}`;
  const hash = (index: number): bigint => hashOf(seed, pathTo(prompt, index));
  if (change.kind === 'remove') {
    naive.remove(residency, hash(Math.min(change.block, prompt.blocks.length - 1)), 0);
    return;
  }
  const indexes = storedBlocks(change);
  const [first = 0] = indexes;
  naive.store({ residency, hashes: indexes.map(hash), parent: first === 0 ? undefined : hash(first - 1), contents: indexes.map((index) => contentOf(prompt, index)), isReporting: false }, 0);
}

function storedBlocks({ prompt, from, count }: Extract<Change, { readonly kind: 'store' }>): number[] {
  const first = Math.min(from, prompt.blocks.length - 1);
  return prompt.blocks.map((_, index) => index).slice(first, first + count);
}

/** The engine ends and begins anew, or only its connection does. */
function breakOff({ engine, network, publish }: Side, what: Extract<Step['what'], { readonly kind: 'restart' | 'reconnect' }>): void {
  network.disconnect();
  if (what.kind === 'restart') {
    engine.restart();
    for (const change of what.sentBefore) publish([change]);
  }
  network.connect();
}

describe('streams into the index, against a naive model', () => {
  it('hold what the batches hold that a plain model of the replay lets through, when streams come to rest between steps', async () => {
    await fc.assert(fc.asyncProperty(runArb.steps, runArb.capacity, modeArb, async (steps, capacity, firstMode) => {
      const run = new Run({ capacity, queue: 10_000 });
      for (const { network, model } of run.sides) {
        network.mode = firstMode;
        network.connect();
        model.connected(firstMode, false);
      }
      await run.rest();
      for (const { stream, what } of steps) {
        const side = run.sides[stream];
        if (side === undefined) throw new Error('no such stream');
        const { network, model } = side;
        if (what.kind === 'mode') network.mode = what.mode;
        else if (what.kind === 'batch') {
          const sent = side.publish(what.changes);
          for (let arrival = 0; arrival < what.arrivals; arrival += 1) {
            network.deliver(sent);
            await run.rest();
            model.live(sent, network.mode);
          }
        } else {
          breakOff(side, what);
          await run.rest();
          model.connected(network.mode, true);
        }
      }
      for (const [at, side] of run.sides.entries()) {
        const naive = new NaiveStream();
        for (const [epoch, batches] of side.model.lives.entries()) {
          if (epoch > 0) naive.reset('restart', 0);
          for (const batch of batches) side.replay(naive, batch);
        }
        expect(run.held(at)).toEqual(naive.copies());
        expect(run.streams[at]?.view()).toMatchObject({ unknownRemovals: naive.unknownRemovals, missedBatches: side.model.missed, missedLost: side.model.lost, duplicateBatches: side.model.duplicates });
      }
      checkBooks(run.index);
      await run.close();
    }), { numRuns: 150 });
  });

  it('hold what they were told in order, and with every answer whole what the engine holds, when nothing waits for anything', async () => {
    await fc.assert(fc.asyncProperty(runArb.steps, runArb.capacity, runArb.queue, async (steps, capacity, queue) => {
      const run = new Run({ capacity, queue });
      for (const { network } of run.sides) network.connect();
      for (const { stream, turns, what } of steps) {
        const side = run.sides[stream];
        if (side === undefined) throw new Error('no such stream');
        if (what.kind === 'mode') side.network.mode = what.mode;
        else if (what.kind === 'batch') {
          const sent = side.publish(what.changes);
          for (let arrival = 0; arrival < what.arrivals; arrival += 1) side.network.deliver(sent);
        } else breakOff(side, what);
        for (let n = 0; n < turns; n += 1) await turn();
      }
      await run.rest();
      const hasFailed = run.streams.map((stream) => (stream.view().replay?.failed ?? 0) > 0);
      for (const { network, publish } of run.sides) {
        network.mode = { kind: 'complete' };
        for (let n = 0; n < 2; n += 1) {
          network.deliver(publish([LAST]));
          await run.rest();
        }
      }
      for (const [at, side] of run.sides.entries()) {
        const naive = new NaiveStream();
        for (const ts of run.told[at] ?? []) {
          if (ts === undefined) naive.reset('restart', 0);
          else side.replay(naive, side.sentAt(ts));
        }
        expect(run.held(at)).toEqual(naive.copies());
        expect(run.streams[at]?.view().unknownRemovals).toBe(naive.unknownRemovals);
        const isWhole = capacity >= 1000 && hasFailed[at] === false;
        expect(isWhole ? run.held(at) : side.truth()).toEqual(side.truth());
      }
      checkBooks(run.index);
      await run.close();
    }), { numRuns: 150 });
  });
});
