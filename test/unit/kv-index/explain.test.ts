import { describe, expect, it } from 'vitest';
import type { BlockName, NodeHolder } from '#shared/cache.ts';
import type { StreamId } from '#shared/ids.ts';
import type { BlockVerdict, Explanation } from '#engine/kv-index/answers.ts';
import type { ExplainOptions } from '#engine/kv-index/explain.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { missRanges } from '#engine/kv-index/miss-ranges.ts';
import type { StreamBlocks } from '#engine/kv-index/stream-blocks.ts';
import { cleared, gap, identity, removed, stored, tokens } from './events.ts';

/** Five blocks of two tokens, and one token more. */
const PROMPT = tokens(100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 1);
const at = (atUnixMs: number): { readonly atUnixMs: number } => ({ atUnixMs });

function setUp(): { readonly index: KvIndex; readonly p0: StreamBlocks; readonly p1: StreamBlocks; readonly ask: (options?: ExplainOptions, prompt?: Uint32Array) => Explanation } {
  const index = new KvIndex({ capacity: 1000, historyCapacity: 1000 });
  const [p0, p1] = [index.open(identity('p0')), index.open(identity('p1'))];
  return { index, p0, p1, ask: (options = {}, prompt = PROMPT) => index.explain(prompt, p0.identity.id, options) };
}

function verdicts({ ranges }: Explanation): (readonly [number, number, BlockVerdict])[] {
  return ranges.map(({ fromBlock, toBlock, verdict }) => [fromBlock, toBlock, verdict]);
}

describe('explain', () => {
  it('finds hits from the first block on, and a last block that is not whole', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3, 4, 5]), at(10));
    expect(verdicts(ask())).toEqual([[0, 5, { kind: 'hit', media: ['GPU'] }], [5, 6, { kind: 'partial_block' }]]);
    expect(ask()).toMatchObject({ stream: 'p0/0', blockSize: 2, tokens: 11, hitTokens: 10, cutRanges: 0 });
  });

  it('leaves the last block of a prompt that ends with it to be computed', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3, 4, 5]), at(10));
    const whole = ask({}, PROMPT.subarray(0, 10));
    expect(verdicts(whole)).toEqual([[0, 4, { kind: 'hit', media: ['GPU'] }], [4, 5, { kind: 'partial_block' }]]);
    expect(whole.hitTokens).toBe(8);
  });

  it('names the medium, and goes on from the GPU to a slower one', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2]), at(10));
    p0.apply(stored([1, 2, 3], { medium: 'cpu' }), at(11));
    expect(verdicts(ask()).slice(0, 2)).toEqual([[0, 2, { kind: 'hit', media: ['CPU', 'GPU'] }], [2, 3, { kind: 'hit', media: ['CPU'] }]]);
  });

  it('tells when blocks were evicted, what displaced them, and that later ones were of no use', () => {
    const { index, p0, ask } = setUp();
    p0.apply(stored([1, 2, 3, 4, 5]), at(10));
    p0.apply(removed([2]), at(20));
    p0.apply(removed([3]), at(21));
    p0.apply(stored([77], { tokens: [7, 7] }), at(22));
    const [, evicted, rest] = verdicts(ask());
    expect(evicted).toMatchObject([1, 3, { kind: 'evicted', fromUnixMs: 20, toUnixMs: 21, displacedBy: { hash: '000000000000004d' }, alsoOn: [] }]);
    expect(rest).toEqual([3, 5, { kind: 'unreachable', media: ['GPU'] }]);
    const [, range] = ask().ranges;
    const displacer = range?.verdict.kind === 'evicted' ? range.verdict.displacedBy?.node : undefined;
    expect(displacer).toBe(index.prefix(tokens(7, 7)).paths[0]?.node);
    // As it was before.
    expect(verdicts(ask(at(15)))[0]).toEqual([0, 5, { kind: 'hit', media: ['GPU'] }]);
    expect(verdicts(ask(at(20.5)))[1]).toMatchObject([1, 2, { kind: 'evicted', fromUnixMs: 20, toUnixMs: 20 }]);
  });

  it('keeps the last two times a block was resident, and says so when asked about an earlier one', () => {
    const { p0, ask } = setUp();
    for (const time of [10, 30, 50]) {
      p0.apply(stored([1]), at(time));
      p0.apply(removed([1]), at(time + 10));
    }
    const kindAt = (time: number): string | undefined => ask(at(time), PROMPT.subarray(0, 3)).ranges[0]?.verdict.kind;
    expect([kindAt(5), kindAt(15), kindAt(35), kindAt(45), kindAt(55), kindAt(65)]).toEqual(['unknown', 'unknown', 'hit', 'evicted', 'hit', 'evicted']);
    expect(p0.returns).toBe(2);
  });

  it('names instances that held what this one never stored', () => {
    const { p0, p1, ask } = setUp();
    p0.apply(stored([1]), at(10));
    p1.apply(stored([11, 12, 13]), at(10));
    expect(verdicts(ask()).slice(1)).toMatchObject([[1, 3, { kind: 'elsewhere', streams: ['p1/0'] }], [3, 5, { kind: 'never_stored' }], [5, 6, { kind: 'partial_block' }]]);
  });

  it('shows the first token that differs from the nearest block held, and what would have matched after it', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3, 4, 5], { tokens: [100, 101, 102, 999, 104, 105, 106, 107, 8, 8] }), at(10));
    p0.apply(stored([6], { parent: 1, tokens: [55, 56] }), at(11));
    const [, range] = verdicts(ask());
    expect(range).toMatchObject([1, 5, {
      kind: 'diverges',
      divergence: { block: 1, token: 1, position: 3, expected: [102, 103, 104, 105, 106, 107, 108, 109, 1], found: [102, 999, 104, 105, 106, 107, 8, 8], sameAfter: 2, isNearest: true },
    }]);
  });

  it('does not call a first block that shares nothing with any other a divergence', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1], { tokens: [1, 2] }), at(10));
    expect(verdicts(ask())[0]).toEqual([0, 5, { kind: 'never_stored' }]);
  });

  it("says that the nearest block is another instance's when it is", () => {
    const { p0, p1, ask } = setUp();
    p0.apply(stored([1], { tokens: [1, 2] }), at(10));
    p1.apply(stored([1], { tokens: [100, 999] }), at(10));
    expect(verdicts(ask())[0]).toMatchObject([0, 5, { kind: 'never_stored', nearest: { block: 0, token: 1, found: [100, 999] } }]);
  });

  it.each([
    ['salt', { salt: 'b' }, { extraKeys: [['a'], null, null, null, null] }, { salt: 'b' }, { salt: 'a' }],
    ['salt', {}, { extraKeys: [['a'], null, null, null, null] }, {}, { salt: 'a' }],
    ['lora', { lora: 'x' }, {}, { lora: 'x' }, {}],
    ['lora', {}, { loraName: 'y', extraKeys: [['y'], ['y'], ['y'], ['y'], ['y']] }, {}, { lora: 'y' }],
    ['media', { media: [[['img1', 0]]] }, { extraKeys: [[['img2', 0]], null, null, null, null] }, { media: [['img1', 0]] }, { media: [['img2', 0]] }],
  ] as const)('tells another %s from other tokens (%j)', (part, asked, event, expected, found) => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3, 4, 5], event), at(10));
    expect(verdicts(ask(asked))[0]).toMatchObject([0, 5, { kind: 'other_key', parts: [part], expected, found, blocks: 5 }]);
  });

  it('counts all blocks that another picture alone keeps from matching: each that it touches has its key', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3, 4, 5], { extraKeys: [null, [['img2', 0]], [['img2', -2]], [['img2', -4]], null] }), at(10));
    const media = [undefined, [['img1', 0]], [['img1', -2]], [['img1', -4]]] satisfies ExplainOptions['media'];
    expect(verdicts(ask({ media })).slice(0, 2)).toMatchObject([[0, 1, { kind: 'hit' }], [1, 5, { kind: 'other_key', parts: ['media'], blocks: 4 }]]);
  });

  it('hits under the same salt, adapter and media', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3, 4, 5], { loraName: 'x', extraKeys: [['x', ['img', -3], 's'], ['x'], ['x'], ['x'], ['x']] }), at(10));
    expect(ask({ lora: 'x', salt: 's', media: [[['img', -3]]] }).hitTokens).toBe(10);
    expect(ask({ lora: 'x', salt: 's' }).hitTokens).toBe(0);
  });

  it('tells a reset of the cache and a restart of the engine from evictions', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3]), at(10));
    p0.apply(cleared, at(20));
    p0.apply(stored([4, 5], { parent: 3, tokens: [106, 107, 108, 109] }), at(30));
    p0.restart(40);
    expect(verdicts(ask()).slice(0, 2)).toMatchObject([[0, 3, { kind: 'reset', reason: 'cleared', atUnixMs: 20 }], [3, 5, { kind: 'reset', reason: 'restart', atUnixMs: 40 }]]);
    expect(verdicts(ask(at(35))).slice(0, 2)).toMatchObject([[0, 3, { kind: 'reset', reason: 'cleared' }], [3, 5, { kind: 'unreachable' }]]);
  });

  it('does not know what a gap hid, but what came before a reset does not matter', () => {
    const { p0, p1, ask } = setUp();
    p0.apply(stored([1, 2]), at(10));
    p1.apply(stored([1, 2, 3]), at(10));
    p0.lost(gap(5, 7, 20));
    expect(verdicts(ask())).toMatchObject([
      [0, 2, { kind: 'hit', lost: { from: 5, to: 7 } }], [2, 3, { kind: 'unknown', reason: 'lost', alsoOn: ['p1/0'] }], [3, 5, { kind: 'unknown', reason: 'lost', lost: { from: 5, to: 7 } }], [5, 6, {}],
    ]);
    p0.lost(gap(9, 9, 30));
    p0.restart(40);
    expect(verdicts(ask()).map(([, , { kind }]) => kind)).toEqual(['reset', 'elsewhere', 'never_stored', 'partial_block']);
    expect(verdicts(ask(at(35))).map(([, , { kind }]) => kind)).toEqual(['hit', 'unknown', 'unknown', 'partial_block']);
  });

  it('does not know what the engine stored before pdscope attached', () => {
    const { p0, ask } = setUp();
    p0.lost({ cause: 'late_attach', epoch: 1, from: 0, to: 99, untilUnixMs: 5 });
    p0.apply(stored([3], { parent: 2, tokens: [104, 105] }), at(10));
    expect(verdicts(ask())[0]).toMatchObject([0, 5, { kind: 'unknown', reason: 'lost', lost: { cause: 'late_attach' } }]);
    // Once the whole prefix is announced, what was stored before it is in its place too.
    p0.apply(stored([1, 2]), at(20));
    expect(verdicts(ask())[0]).toEqual([0, 3, { kind: 'hit', media: ['GPU'] }]);
  });

  it('does not claim that blocks were never stored when there was no room to remember them', () => {
    const index = new KvIndex({ capacity: 2, historyCapacity: 2 });
    const p0 = index.open(identity('p0'));
    p0.apply(stored([1, 2, 3, 4, 5]), at(10));
    expect(index.explain(PROMPT, p0.identity.id).ranges[0]?.verdict).toMatchObject({ kind: 'unknown', reason: 'forgotten' });
  });

  it.each([
    ['cleared', (stream: StreamBlocks): void => stream.apply(cleared, at(20))],
    ['restarted', (stream: StreamBlocks): void => stream.restart(20)],
  ] as const)('knows again what was never stored once the engine has %s: what there was no room for went too', (_, reset) => {
    const index = new KvIndex({ capacity: 2, historyCapacity: 2 });
    const p0 = index.open(identity('p0'));
    p0.apply(stored([1, 2, 3, 4, 5]), at(10));
    const ask = (atUnixMs?: number): BlockVerdict | undefined => index.explain(tokens(7, 7, 1), p0.identity.id, { atUnixMs }).ranges[0]?.verdict;
    expect(ask()).toMatchObject({ kind: 'unknown', reason: 'forgotten' });
    const { displaced } = p0;
    reset(p0);
    expect(ask()).toEqual({ kind: 'never_stored', sinceUnixMs: 20 });
    expect(ask(15)).toMatchObject({ kind: 'unknown', reason: 'forgotten' });
    expect([displaced > 0, p0.displaced]).toEqual([true, displaced]);
  });

  it('keeps that doubt for blocks of another tier, which a cleared prefix cache leaves alone', () => {
    const index = new KvIndex({ capacity: 2, historyCapacity: 8 });
    const p0 = index.open(identity('p0'));
    p0.apply(stored([1, 2, 3], { medium: 'CPU' }), at(10));
    p0.apply(cleared, at(20));
    expect(index.explain(tokens(7, 7, 1), p0.identity.id).ranges[0]?.verdict).toMatchObject({ kind: 'unknown', reason: 'forgotten' });
  });

  it('does not know what a detached stream holds, and remembers what it held when it is watched again', () => {
    const { index, p0, ask } = setUp();
    p0.apply(stored([1, 2]), at(10));
    p0.detach(20);
    expect(verdicts(ask())[0]).toMatchObject([0, 5, { kind: 'unknown', reason: 'detached' }]);
    const again = index.open(p0.identity);
    again.apply(stored([1]), at(30));
    expect(verdicts(ask()).slice(0, 2)).toMatchObject([[0, 1, { kind: 'hit' }], [1, 2, { kind: 'unknown', reason: 'detached' }]]);
    expect(verdicts(ask(at(15)))[0]).toMatchObject([0, 2, { kind: 'hit' }]);
  });

  it('has an answer for a stream that never published tokens', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2], { tokens: [], blockSize: 0 }), at(10));
    expect(ask()).toMatchObject({ blockSize: 0, hitTokens: 0, ranges: [{ fromToken: 0, toToken: 11, verdict: { kind: 'unknown', reason: 'no_blocks' } }] });
  });

  it('refuses a stream that it does not know', () => {
    const { index } = setUp();
    expect(() => index.explain(PROMPT, 'p9/0' as StreamId)).toThrow(expect.objectContaining({ code: 'kv_stream_unknown' }));
  });
});

describe('missRanges', () => {
  const holderOf = (stream: StreamId): NodeHolder => ({ stream, instance: identity('p1').instance, instanceName: 'P1', role: 'prefill', medium: 'GPU' });

  const namesOf = (): readonly BlockName[] => [];

  it('says in words, with values, what became of each range', () => {
    const { index, p0, p1, ask } = setUp();
    p0.apply(stored([1, 2, 3, 4]), at(1000));
    p1.apply(stored([1, 2, 3, 4, 5]), at(1000));
    p0.apply(removed([2]), at(3000));
    expect(missRanges(ask(at(5500)), { holderOf, namesOf: (node) => index.namesOf(node) })).toEqual([
      { kind: 'hit', fromBlock: 0, toBlock: 0, tokens: 2, message: 'resident on GPU' },
      { kind: 'evicted', fromBlock: 1, toBlock: 1, tokens: 2, message: 'evicted 2.5 s before', evictedAtUnixMs: 3000, elsewhere: [holderOf('p1/0' as StreamId)], block: { stream: 'p0/0', instanceName: 'P0', hash: '0000000000000002' } },
      { kind: 'evicted', fromBlock: 2, toBlock: 3, tokens: 4, message: 'resident on GPU, but of no use: block 1 before it was missing' },
      { kind: 'elsewhere', fromBlock: 4, toBlock: 4, tokens: 2, message: 'never stored here, but on P1', elsewhere: [holderOf('p1/0' as StreamId)], block: { stream: 'p1/0', instanceName: 'P1', hash: '0000000000000005' } },
      { kind: 'partial-block', fromBlock: 5, toBlock: 5, tokens: 1, message: 'never reusable: not a whole block, or the end of the prompt, of which at least one token is computed' },
    ]);
  });

  it('shows both sides of a divergence from the tokens before it', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2], { tokens: [100, 101, 102, 999] }), at(10));
    expect(missRanges(ask(), { holderOf, namesOf })[1]).toMatchObject({
      kind: 'diverges', message: 'differs from the nearest block held here from token 3 on (block 1, token 1 of it)',
      diverges: { block: 1, token: 3, asked: { tokens: [102, 103, 104, 105, 106, 107, 108, 109, 1] }, held: { tokens: [102, 999] } },
    });
  });

  it('names the block that is held where a prompt diverges as the stream does that was asked about, hash and all', () => {
    const { index, p0, p1, ask } = setUp();
    const names = { holderOf, namesOf: index.namesOf.bind(index) };
    const other = [100, 101, 102, 999];
    const digest = 'b7'.repeat(32);
    p1.apply(stored([11, 12], { tokens: other }), at(9));
    p0.apply(stored([1, Uint8Array.from(Buffer.from(digest, 'hex'))], { tokens: other }), at(10));
    expect(missRanges(ask(), names)[1]).toMatchObject({ kind: 'diverges', block: { stream: 'p0/0', instanceName: 'P0', hash: digest } });
    p0.apply(cleared, at(11));
    expect(missRanges(ask(), names)[1]).toMatchObject({ kind: 'diverges', block: { stream: 'p0/0' } });
  });

  it('names no block where none is known, and the nearest one of another stream where this one held none', () => {
    const { index, p1, ask } = setUp();
    const names = { holderOf, namesOf: index.namesOf.bind(index) };
    expect(missRanges(ask({}, tokens(9, 9, 9)), names)[0]).not.toHaveProperty('block');
    p1.apply(stored([11, 12], { tokens: [100, 101, 102, 999] }), at(10));
    expect(missRanges(ask({ blockSize: 2 }), names)[1]).toMatchObject({ kind: 'never-stored', block: { stream: 'p1/0', hash: '000000000000000c' } });
    expect(index.namesOf(123_456)).toEqual([]);
  });

  it('names the key that differs, and the batches that are missing', () => {
    const { index, p0, ask } = setUp();
    p0.apply(stored([1, 2], { extraKeys: [['a'], null] }), at(10));
    expect(missRanges(ask({ salt: 'b' }), { holderOf, namesOf: (node) => index.namesOf(node) })[0]).toMatchObject({
      block: { stream: 'p0/0', hash: '0000000000000001' }, kind: 'other-key', key: { what: 'salt', asked: 'b', held: 'a' }, message: 'the same tokens are held under another cache salt (a instead of b); 2 blocks would have matched',
    });
    p0.lost(gap(5, 7, 20));
    expect(missRanges(ask({}, tokens(9, 9, 9)), { holderOf, namesOf })[0]).toMatchObject({ kind: 'unknown', gap: { stream: 'p0/0', fromSeq: 5, toSeq: 7 }, message: 'not known: batches 5 to 7 are missing' });
  });

  it('looks at a prompt as it was before the prompt itself was stored: divergence, other key and news alike', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3], { tokens: [100, 101, 102, 55, 104, 105] }), at(10));
    p0.apply(stored([11, 12, 13, 14, 15]), at(20));
    expect(verdicts(ask(at(15)))[0]).toMatchObject([0, 1, { kind: 'hit' }]);
    expect(verdicts(ask(at(15)))[1]).toMatchObject([1, 5, { kind: 'diverges', divergence: { position: 3, expected: [102, 103, 104, 105, 106, 107, 108, 109, 1], found: [102, 55, 104, 105] } }]);
    expect(verdicts(ask(at(25)))[0]).toEqual([0, 5, { kind: 'hit', media: ['GPU'] }]);
    const other = setUp();
    other.p0.apply(stored([1, 2, 3, 4, 5], { extraKeys: [['s1'], undefined, undefined, undefined, undefined] as never }), at(10));
    other.p0.apply(stored([11, 12, 13, 14, 15]), at(20));
    expect(verdicts(other.ask(at(15)))[0]).toMatchObject([0, 5, { kind: 'other_key', parts: ['salt'], found: { salt: 's1' }, blocks: 5 }]);
    const fresh = setUp();
    fresh.p0.apply(stored([9], { tokens: [7, 7] }), at(5));
    fresh.p0.apply(stored([11, 12, 13, 14, 15]), at(20));
    expect(verdicts(fresh.ask(at(15)))[0]).toEqual([0, 5, { kind: 'never_stored' }]);
  });

  it('remembers what displaced a block although the prompt has stored it again since', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3, 4, 5]), at(10));
    p0.apply(removed([5]), at(20));
    p0.apply(stored([77], { tokens: [7, 7] }), at(21));
    p0.apply(removed([77]), at(30));
    p0.apply(stored([5], { parent: 4, tokens: [108, 109] }), at(31));
    expect(verdicts(ask(at(25)))[1]).toMatchObject([4, 5, { kind: 'evicted', fromUnixMs: 20, displacedBy: { hash: '000000000000004d' } }]);
    expect(verdicts(ask(at(25)))[0]).toEqual([0, 4, { kind: 'hit', media: ['GPU'] }]);
    p0.apply(removed([5]), at(40));
    p0.apply(stored([78], { tokens: [8, 8] }), at(41));
    expect(verdicts(ask(at(45)))[1]).toMatchObject([4, 5, { kind: 'evicted', fromUnixMs: 40, displacedBy: { hash: '000000000000004e' } }]);
    // Of two, the later displacer is remembered.
    expect(verdicts(ask(at(25)))[1]?.[2]).not.toHaveProperty('displacedBy');
  });
});

describe('in slices', () => {
  const LONG = Uint32Array.from({ length: 2 * 600 + 1 }, (_, index) => index);
  const names = Array.from({ length: 600 }, (_, index) => index + 1);
  /** A long prompt on p0, evicted from block 400 on. */
  function long(capacity = 5000): ReturnType<typeof setUp> & { readonly steps: () => Generator<undefined, Explanation>; readonly whole: () => Explanation } {
    const index = new KvIndex({ capacity, historyCapacity: 1000 });
    const [p0, p1] = [index.open(identity('p0')), index.open(identity('p1'))];
    p0.apply(stored(names, { tokens: Array.from(LONG.subarray(0, 1200)) }), at(10));
    p0.apply(removed(names.slice(400)), at(20));
    p0.apply(stored([7000], { tokens: [7, 7] }), at(21));
    const options = { atUnixMs: 50 };
    return { index, p0, p1, ask: () => index.explain(LONG, p0.identity.id, options), steps: () => index.explainSteps(LONG, p0.identity.id, options), whole: () => index.explain(LONG, p0.identity.id, options) };
  }

  it('answers as of the time asked for, whatever is stored, removed and cleared between two slices', () => {
    const { p0, p1, steps, whole } = long();
    const before = whole();
    expect(before.ranges.map(({ fromBlock, toBlock, verdict }) => [fromBlock, toBlock, verdict.kind])).toEqual([[0, 400, 'hit'], [400, 600, 'evicted'], [600, 601, 'partial_block']]);
    const running = steps();
    let slices = 1;
    let step = running.next();
    for (; step.done !== true; step = running.next()) {
      slices += 1;
      p0.apply(removed(names.slice(0, slices * 100)), at(60 + slices));
      if (slices === 2) p0.apply(stored(names.slice(500), { parent: 500, tokens: Array.from(LONG.subarray(1000, 1200)) }), at(70 + slices));
      p1.apply(stored(names, { tokens: Array.from(LONG.subarray(0, 1200)) }), at(80 + slices));
      if (slices === 3) p0.apply(cleared, at(90));
    }
    expect(step.value).toEqual(before);
    expect(slices).toBe(5);
  });

  it('begins anew when what it had come to was forgotten, or batches were found missing', () => {
    const { p0, steps, whole } = long(600);
    const running = steps();
    running.next();
    p0.lost(gap(3, 4, 40));
    let last = running.next();
    while (last.done !== true) last = running.next();
    expect(last.value).toEqual(whole());
    expect(last.value).toMatchObject({ ranges: [{ verdict: { kind: 'hit', lost: { from: 3 } } }, { verdict: { kind: 'evicted', lost: { from: 3 } } }, {}] });
    const again = steps();
    again.next();
    // More blocks than the index holds: those of the prompt are given up.
    p0.apply(stored(Array.from({ length: 3000 }, (_, index) => 10_000 + index), { tokens: Array.from({ length: 6000 }, (_, index) => 50_000 + index) }), at(45));
    let end = again.next();
    while (end.done !== true) end = again.next();
    expect(end.value).toEqual(whole());
    expect(end.value.hitTokens).toBe(0);
  });
});
