import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import type { StreamBlocks } from '#engine/kv-index/stream-blocks.ts';
import type { BlockVerdict } from '#engine/kv-index/answers.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { identity } from './events.ts';
import { checkBooks } from './invariants.ts';
import { NaiveStream, type NaiveInterval } from './naive-model.ts';
import { BLOCK, contentOf, hashOf, named, pathTo, promptArb, promptTokens, removeEvent, storeEvent, type Form } from './world.ts';

const STREAMS = 3;
const streamArb = fc.integer({ min: 0, max: STREAMS - 1 });
const formArb = fc.constantFrom<Form>('int', 'int', 'signed', 'bytes');
const placeArb = fc.record({ medium: fc.constantFrom('GPU', 'GPU', 'GPU', 'CPU'), group: fc.constantFrom(0, 0, 0, 1) });

const commandArb = fc.oneof(
  { weight: 8, arbitrary: fc.record({
    kind: fc.constant('store' as const), stream: streamArb, prompt: promptArb, from: fc.constantFrom(0, 0, 0, 1, 2), count: fc.integer({ min: 1, max: 5 }),
    form: formArb, place: placeArb, isPlaceholder: fc.constantFrom(false, false, false, false, true), isReporting: fc.constantFrom(false, false, true),
  }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('remove' as const), stream: streamArb, prompt: promptArb, block: fc.integer({ min: 0, max: 4 }), form: formArb, place: placeArb }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('clear' as const, 'restart' as const, 'detach' as const), stream: streamArb, keepsSeed: fc.boolean() }) },
);
type Command = typeof commandArb extends fc.Arbitrary<infer T> ? T : never;

/** Runs commands against the index and the naive model, a millisecond apart. */
class Run {
  readonly index: KvIndex;
  readonly streams: StreamBlocks[];
  readonly naive = Array.from({ length: STREAMS }, () => new NaiveStream());
  readonly #seeds = Array.from({ length: STREAMS }, (_, at) => `seed ${at} 0`);
  now = 1000;

  constructor(options = {}) {
    this.index = new KvIndex({ capacity: 1000, historyCapacity: 1000, tokenBytes: 1 << 20, ...options });
    this.streams = Array.from({ length: STREAMS }, (_, at) => this.index.open(identity(`p${at}`)));
  }

  do(command: Command): void {
    this.now += 1;
    const stream = this.streams[command.stream];
    const naive = this.naive[command.stream];
    const seed = this.#seeds[command.stream] ?? '';
    if (stream === undefined || naive === undefined) throw new Error('no such stream');
    const context = { atUnixMs: this.now };
    switch (command.kind) {
      case 'store': {
        const { prompt, place, form, isPlaceholder, isReporting } = command;
        const from = Math.min(command.from, prompt.blocks.length - 1);
        const to = Math.min(prompt.blocks.length, from + command.count);
        stream.apply(storeEvent(prompt, { from, to }, { seed, form, ...place, isPlaceholder }), { ...context, isReporting });
        const indexes = prompt.blocks.map((_, at) => at).slice(from, to);
        naive.store({
          residency: `${place.medium} ${place.group}`,
          hashes: indexes.map((at) => hashOf(seed, pathTo(prompt, at))),
          parent: from === 0 ? undefined : hashOf(seed, pathTo(prompt, from - 1)),
          contents: isPlaceholder ? undefined : indexes.map((at) => contentOf(prompt, at)),
          isReporting,
        }, this.now);
        break;
      }
      case 'remove': {
        const path = pathTo(command.prompt, Math.min(command.block, command.prompt.blocks.length - 1));
        stream.apply(removeEvent(named(seed, path, command.form), command.place), context);
        naive.remove(`${command.place.medium} ${command.place.group}`, hashOf(seed, path), this.now);
        break;
      }
      case 'clear':
        stream.apply({ kind: 'cleared' }, context);
        naive.reset('cleared', this.now);
        break;
      case 'restart':
        stream.restart(this.now);
        naive.reset('restart', this.now);
        if (!command.keepsSeed) this.#seeds[command.stream] = `seed ${command.stream} ${this.now}`;
        break;
      case 'detach':
        stream.detach(this.now);
        naive.reset('detached', this.now);
        // Counts are of the time that a stream is attached.
        naive.unknownRemovals = 0;
        this.streams[command.stream] = this.index.open(stream.identity);
        break;
    }
  }

  /** Live blocks as the naive model names them. */
  live(at: number): Map<string, { readonly copies: number; readonly node: number; readonly isPlaced: boolean }> {
    const { holdings, nodes } = this.index.graph;
    const found = new Map<string, { readonly copies: number; readonly node: number; readonly isPlaced: boolean }>();
    for (const { era, medium, groupIdx } of this.streams[at]?.residencies ?? []) {
      for (const slot of holdings.slotsOf(era)) {
        const hash = (BigInt(holdings.highOf(slot)) << 32n) | BigInt(holdings.lowOf(slot));
        const node = holdings.nodeOf(slot);
        found.set(`${medium} ${groupIdx} ${hash}`, { copies: holdings.copiesOf(slot), node, isPlaced: nodes.isPlaced(node) });
      }
    }
    return found;
  }
}

const commandsArb = fc.array(commandArb, { minLength: 1, maxLength: 60 });

describe('KvIndex against a naive model', () => {
  it('holds the same blocks, as many times, at the same place of the tree, whatever the order of events', () => {
    fc.assert(fc.property(commandsArb, (commands) => {
      const run = new Run();
      for (const command of commands) run.do(command);
      checkBooks(run.index);
      const nodeByPath = new Map<string, number>();
      for (let at = 0; at < STREAMS; at += 1) checkStream(run, at, nodeByPath);
      expect(new Set(nodeByPath.values()).size).toBe(nodeByPath.size);
      expect(run.index.graph.conflicts).toBe(0);
    }), { numRuns: 200 });
  });

  it('answers prefixes as counting blocks one by one would', () => {
    fc.assert(fc.property(commandsArb, promptArb, (commands, prompt) => {
      const run = new Run();
      for (const command of commands) run.do(command);
      const { lora, salt } = prompt;
      const answer = run.index.prefix(promptTokens(prompt), { lora, salt });
      for (let at = 0; at < STREAMS; at += 1) {
        const held = (index: number, medium: string): boolean => run.naive[at]?.intervals(pathTo(prompt, index), (residency) => residency.startsWith(medium)).some(({ to }) => to === undefined) === true;
        const count = (medium: string): number => {
          const missing = prompt.blocks.findIndex((_, index) => !held(index, medium));
          return missing < 0 ? prompt.blocks.length : missing;
        };
        const match = answer.paths[0]?.matches.find(({ stream }) => stream === run.streams[at]?.identity.id);
        expect({ blocks: match?.blocks ?? 0, gpuBlocks: match?.gpuBlocks ?? 0, tokens: match?.tokens ?? 0 }).toEqual({ blocks: count(''), gpuBlocks: count('GPU'), tokens: count('') * BLOCK });
      }
    }), { numRuns: 200 });
  });

  it('explains every block of a prompt at any time as the whole history does, or says that it does not know', () => {
    fc.assert(fc.property(commandsArb, promptArb, fc.double({ min: 0, max: 1, noNaN: true }), streamArb, (commands, prompt, when, at) => {
      const run = new Run();
      for (const command of commands) run.do(command);
      const stream = run.streams[at];
      const naive = run.naive[at];
      if (stream === undefined || naive === undefined) throw new Error('no such stream');
      const time = 1000 + Math.round(when * (run.now - 999)) + 0.5;
      const { lora, salt } = prompt;
      // One token more, so that the last block may be a hit.
      const tokens = Uint32Array.from([...promptTokens(prompt), 99]);
      const { ranges, hitTokens } = run.index.explain(tokens, stream.identity.id, { lora, salt, atUnixMs: time, blockSize: BLOCK });
      const verdictOf = (index: number): BlockVerdict | undefined => ranges.find(({ fromBlock, toBlock }) => index >= fromBlock && index < toBlock)?.verdict;
      expect(ranges.map(({ fromToken }) => fromToken)).toEqual([0, ...ranges.slice(0, -1).map(({ toToken }) => toToken)]);
      expect(ranges.at(-1)?.toToken).toBe(tokens.length);
      let isReachable = true;
      let hits = 0;
      for (const [index] of prompt.blocks.entries()) {
        const verdict = verdictOf(index);
        const intervals = naive.intervals(pathTo(prompt, index), () => true);
        const expected = truthAt(intervals, time);
        expect(disagreement(verdict, { isReachable, expected, intervals: intervals.length, isBlind: isBlindAt(stream, time) })).toBeUndefined();
        if (verdict?.kind === 'hit') hits += 1;
        else isReachable = false;
      }
      expect(hitTokens).toBe(hits * BLOCK);
    }), { numRuns: 200 });
  });

  it('never says of a block that was there to be found that it was not, whatever it forgot since', () => {
    // Few prompts on one medium, so that most removals find a block, and most questions are about one that went and came.
    const prompt = fc.record({ blocks: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength: 2 }), lora: fc.constant(undefined), salt: fc.constantFrom(undefined, 's1') });
    const common = { stream: fc.integer({ min: 0, max: 1 }), prompt, form: fc.constant<Form>('int'), place: fc.constant({ medium: 'GPU', group: 0 }) };
    const few = fc.oneof(
      { weight: 6, arbitrary: fc.record({ ...common, kind: fc.constant('store' as const), from: fc.constant(0), count: fc.constant(2), isPlaceholder: fc.constant(false), isReporting: fc.constant(false) }) },
      { weight: 6, arbitrary: fc.record({ ...common, kind: fc.constant('remove' as const), block: fc.integer({ min: 0, max: 1 }) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('clear' as const, 'restart' as const), stream: common.stream, keepsSeed: fc.boolean() }) },
    );
    let saved = 0;
    const pastArb = fc.record({ asked: prompt, percent: fc.integer({ min: 0, max: 99 }), at: common.stream, history: fc.integer({ min: 0, max: 2 }) });
    fc.assert(fc.property(fc.array(few, { minLength: 10, maxLength: 60 }), pastArb, (commands, { asked, percent, at, history }) => {
      const run = new Run({ historyCapacity: history, leastHistory: history });
      for (const command of commands) run.do(command);
      const [stream, naive] = [run.streams[at], run.naive[at]];
      if (stream === undefined || naive === undefined) throw new Error('no such stream');
      const time = 1000 + Math.round((percent / 100) * (run.now - 999)) + 0.5;
      const { ranges } = run.index.explain(Uint32Array.from([...promptTokens(asked), 99]), stream.identity.id, { salt: asked.salt, atUnixMs: time, blockSize: BLOCK });
      for (const [index] of asked.blocks.entries()) {
        if (truthAt(naive.intervals(pathTo(asked, index), () => true), time) !== 'held') break;
        const verdict = ranges.find(({ fromBlock, toBlock }) => index >= fromBlock && index < toBlock)?.verdict;
        if (verdict?.kind === 'unknown' && verdict.reason === 'past') saved += 1;
        // Held, but behind one that is not known.
        expect(['hit', 'unreachable', 'unknown']).toContain(verdict?.kind);
      }
    }), { numRuns: 500 });
    expect(saved).toBeGreaterThan(10);
  });

  it('keeps its books when room runs out: the oldest block goes, and its hash is unknown from then on', () => {
    fc.assert(fc.property(commandsArb, fc.integer({ min: 1, max: 12 }), fc.integer({ min: 2, max: 12 }), (commands, capacity, historyCapacity) => {
      const run = new Run({ capacity, historyCapacity });
      for (const command of commands) {
        run.do(command);
        expect(run.index.size).toBeLessThanOrEqual(capacity);
        expect(run.index.graph.holdings.size).toBeLessThanOrEqual(capacity + historyCapacity);
      }
      checkBooks(run.index);
      for (let at = 0; at < STREAMS; at += 1) {
        const naive = run.naive[at]?.paths() ?? new Map<string, string | undefined>();
        for (const [key, { isPlaced }] of run.live(at)) {
          // A block given up and stored again has one copy here and two there, so it may go there later; never the other way.
          const isHeld = naive.has(key) || run.index.graph.evicted > 0;
          const isPlaceTrue = !isPlaced || !naive.has(key) || naive.get(key) !== undefined;
          expect({ key, isHeld, isPlaceTrue }).toEqual({ key, isHeld: true, isPlaceTrue: true });
        }
      }
    }), { numRuns: 200 });
  });
});

/** Blocks of unknown content are held, or were in a life that was not over yet. */
function isBlindAt(stream: StreamBlocks, time: number): boolean {
  return stream.unplaced() > 0 || stream.residencies.some(({ unplacedUntilUnixMs }) => unplacedUntilUnixMs > time);
}

function truthAt(intervals: readonly NaiveInterval[], time: number): 'held' | 'never' | NaiveInterval {
  const begun = intervals.filter(({ from }) => from <= time);
  if (begun.some(({ to }) => to === undefined || to > time)) return 'held';
  const last = begun.toSorted((a, b) => (b.to ?? 0) - (a.to ?? 0))[0];
  return last ?? 'never';
}

/** Copies and places of one stream's blocks. The same content must be the same node for every stream, seed, hash form and medium. */
function checkStream(run: Run, at: number, nodeByPath: Map<string, number>): void {
  const live = run.live(at);
  const naive = run.naive[at];
  expect(new Map(Array.from(live, ([key, { copies }]) => [key, copies]))).toEqual(naive?.copies());
  expect(run.streams[at]?.unknownRemovals).toBe(naive?.unknownRemovals);
  for (const [key, path] of naive?.paths() ?? []) {
    const block = live.get(key);
    expect(block?.isPlaced, `${key} at ${path}`).toBe(path !== undefined);
    if (path === undefined || block === undefined) continue;
    expect(nodeByPath.get(path) ?? block.node).toBe(block.node);
    nodeByPath.set(path, block.node);
  }
}

/** What is wrong about a verdict, or undefined. */
function disagreement(verdict: BlockVerdict | undefined, truth: { readonly isReachable: boolean; readonly expected: ReturnType<typeof truthAt>; readonly intervals: number; readonly isBlind: boolean }): unknown {
  const { isReachable, expected } = truth;
  return agrees() ? undefined : { verdict, truth };

  function agrees(): boolean {
    // Only what is more than two intervals back, or could be among blocks of unknown content, may be unknown.
    if (verdict?.kind === 'unknown') return truth.intervals > 2 || truth.isBlind || verdict.reason === 'detached';
    if (expected === 'held') return verdict?.kind === (isReachable ? 'hit' : 'unreachable');
    if (expected === 'never') return verdict !== undefined && ['never_stored', 'elsewhere', 'diverges', 'other_key'].includes(verdict.kind);
    if (expected.reason === 'removed') return verdict?.kind === 'evicted';
    return verdict?.kind === 'reset' && verdict.reason === expected.reason && verdict.atUnixMs === expected.to;
  }
}
