import { fc } from '../../../support/properties.ts';
import { expect, test } from 'vitest';
import type { Instance } from '#engine/fleet/instance.ts';
import { ConversationCache, type HeldBlocks } from '#engine/proxy/connectors/conversation/conversation-cache.ts';
import type { KeptTurn, SentTurn } from '#engine/proxy/connectors/conversation/turn.ts';
import { describeSent, keepTurn, refusalOf } from '#engine/proxy/connectors/conversation/turn.ts';
import { scanMembers } from '#engine/proxy/json-members.ts';

const D0 = { id: 'd0', name: 'D0' } as Instance;
const D1 = { id: 'd1', name: 'D1' } as Instance;

function sent(prompt: string): SentTurn {
  const body = Buffer.from(JSON.stringify({ prompt }));
  return describeSent({ api: 'completions', requestId: 'r', headers: {}, body, json: { prompt }, members: scanMembers(body) ?? [], isStream: false });
}

function turnOf(prompt: string): KeptTurn {
  const turn = keepTurn(sent(prompt), { text: '', finishReason: 'stop', hasReasoning: false, otherMembers: [] }, undefined);
  if ('why' in turn) throw new Error(turn.why);
  return turn;
}

const blocks = (prompt: string, { instance = D0, bytes = 10, tokens = 5 } = {}): HeldBlocks => ({ instance, rank: undefined, params: Buffer.alloc(bytes), tokens, turn: turnOf(prompt) });

class Clock {
  ms = 1000;
  readonly now = (): number => this.ms;
}

function create(options: { capacity?: number; ttlMs?: number; maxBytes?: number } = {}): { cache: ConversationCache; clock: Clock } {
  const clock = new Clock();
  return { cache: new ConversationCache({ capacity: 3, ttlMs: 100, now: clock.now, ...options }), clock };
}

test('blocks are handed out once, to a prompt that extends them', () => {
  const { cache } = create();
  cache.begin('c', sent('a'));
  const held = blocks('a');
  cache.keep('c', held);
  expect(cache.begin('c', sent('b'))).toMatchObject({ blocks: undefined, refusal: { code: 'conversation_edited' }, last: { instance: D0 } });
  expect(cache.begin('c', sent('a b')).blocks).toMatchObject(held);
  expect(cache.begin('c', sent('a b'))).toMatchObject({ blocks: undefined, refusal: undefined });
  expect(cache.counts).toEqual({ kept: 1, reused: 0, refused: 1, expired: 0, evicted: 0, lost: 0 });
});

test('blocks given back keep their age', () => {
  const { cache, clock } = create();
  cache.keep('c', blocks('a'));
  clock.ms += 60;
  const taken = cache.begin('c', sent('a')).blocks;
  if (taken === undefined) throw new Error('nothing taken');
  cache.giveBack('c', taken);
  clock.ms += 39;
  expect(cache.rows(1)[0]).toMatchObject({ ageMs: 39, expiresInMs: 1 });
  clock.ms += 1;
  expect(cache.begin('c', sent('a'))).toMatchObject({ blocks: undefined, refusal: undefined });
  expect(cache.counts.expired).toBe(1);
});

test('age: a conversation leaves ttlMs after its last use, and its blocks ttlMs after they were kept', () => {
  const { cache, clock } = create();
  cache.keep('old', blocks('a'));
  clock.ms += 50;
  cache.begin('young', sent('a'));
  clock.ms += 50;
  expect(cache.size).toBe(1);
  expect(cache.rows(10).map(({ id }) => id)).toEqual(['young']);
  clock.ms += 50;
  expect(cache.size).toBe(0);
  expect(cache.counts).toMatchObject({ expired: 1, evicted: 0 });
  expect(cache.bytes).toBe(0);
});

test('count: the conversation not used for the longest time leaves first', () => {
  const { cache } = create({ capacity: 2 });
  cache.keep('a', blocks('a'));
  cache.keep('b', blocks('b'));
  cache.begin('a', sent('x'));
  cache.keep('c', blocks('c'));
  expect(cache.rows(10).map(({ id }) => id)).toEqual(['c', 'a']);
  expect(cache.counts.evicted).toBe(1);
});

test('bytes are capped too', () => {
  const { cache } = create({ capacity: 100, maxBytes: 10_000 });
  for (let turn = 0; turn < 20; turn++) cache.keep(`c${turn}`, blocks('a', { bytes: 1000 }));
  expect(cache.bytes).toBeLessThanOrEqual(10_000);
  expect(cache.size + cache.counts.evicted).toBe(20);
  expect(cache.size).toBeGreaterThan(4);
});

test('four threads under one id, the oldest makes room', () => {
  const { cache } = create();
  for (const prompt of ['a', 'b', 'c', 'd', 'e']) cache.keep('c', blocks(prompt));
  expect(cache.begin('c', sent('a'))).toMatchObject({ blocks: undefined });
  expect(cache.begin('c', sent('b')).blocks).toBeDefined();
  expect(cache.begin('c', sent('e')).blocks).toBeDefined();
});

test('blocks of an instance are dropped, others stay', () => {
  const { cache } = create();
  cache.keep('a', blocks('a'));
  cache.keep('b', blocks('b', { instance: D1 }));
  expect(cache.drop(D0, 'D0 left')).toBe(1);
  expect(cache.rows(10)).toMatchObject([{ id: 'b', tokens: 5 }, { id: 'a', tokens: undefined, outcome: 'lost: D0 left' }]);
  expect(cache.begin('a', sent('a')).blocks).toBeUndefined();
  expect(cache.begin('b', sent('b')).blocks).toBeDefined();
});

test('what could not be kept is said once', () => {
  const { cache } = create();
  cache.keep('c', { code: 'reasoning_stripped', why: 'thinking', instance: D0, rank: 1 });
  expect(cache.begin('c', sent('a'))).toMatchObject({ refusal: { code: 'reasoning_stripped' }, last: { instance: D0, rank: 1 } });
  expect(cache.begin('c', sent('a')).refusal).toBeUndefined();
  expect(cache.counts).toMatchObject({ kept: 0, refused: 1 });
});

test('a repeat of the same request is not another turn', () => {
  const { cache } = create();
  cache.begin('c', sent('a'));
  cache.begin('c', sent('a'), true);
  expect(cache.rows(1)[0]).toMatchObject({ turns: 1, outcome: 'first turn' });
});

test('whatever happens: no blocks twice, caps hold, every way out is counted', () => {
  const step = fc.oneof(
    fc.record({ what: fc.constant('keep'), id: fc.nat(6), prompt: fc.constantFrom('a', 'b'), wait: fc.nat(30) }),
    fc.record({ what: fc.constant('begin'), id: fc.nat(6), prompt: fc.constantFrom('a', 'b'), wait: fc.nat(30) }),
    fc.record({ what: fc.constant('drop'), id: fc.nat(1), prompt: fc.constant('a'), wait: fc.nat(30) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const { cache, clock } = create({ maxBytes: 4000 });
      const taken = new Set<Buffer>();
      const isRight: boolean[] = [];
      for (const { what, id, prompt, wait } of steps) {
        clock.ms += wait;
        if (what === 'keep') cache.keep(`c${id}`, blocks(prompt, { instance: id % 2 === 0 ? D0 : D1, bytes: 100 }));
        else if (what === 'drop') cache.drop(id === 0 ? D0 : D1, 'x');
        else {
          const { blocks: held } = cache.begin(`c${id}`, sent(prompt));
          if (held === undefined) continue;
          isRight.push(!taken.has(held.params) && held.turn.prompt.kind === 'text' && clock.ms - held.keptAtMs < 100);
          isRight.push(refusalOf(held.turn, sent(prompt)) === undefined);
          taken.add(held.params);
        }
        expect(cache.size).toBeLessThanOrEqual(3);
        expect(cache.bytes).toBeLessThanOrEqual(4000);
        expect(cache.bytes).toBeGreaterThanOrEqual(0);
      }
      expect(isRight).not.toContain(false);
      clock.ms += 1000;
      expect(cache.size).toBe(0);
      expect(cache.bytes).toBe(0);
    }),
  );
});
