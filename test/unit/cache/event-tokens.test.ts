import { describe, expect, it } from 'vitest';
import { eventTokens, type EventQuestion } from '#engine/cache/event-tokens.ts';
import type { PromptAnswer } from '#engine/cache/prompt-tokens.ts';
import { RecentStores } from '#engine/cache/recent-stores.ts';
import type { KvEvent } from '#engine/kv-events/kv-event.ts';
import { IndexObserver } from '#engine/kv-index/index-observer.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { identity, removed, stored } from '../kv-index/events.ts';

const P0 = identity('p0');

/** A stream told event after event, one a millisecond from 1000 on. */
function setUp(): { readonly tell: (...events: readonly KvEvent[]) => void; readonly ask: (question?: Partial<EventQuestion>, fromUnixMs?: number) => PromptAnswer; readonly stores: RecentStores } {
  const index = new KvIndex({ capacity: 5000, historyCapacity: 5000 });
  const stores = new RecentStores(new IndexObserver(index));
  stores.onOpen(P0);
  let now = 1000;
  return {
    stores,
    tell: (...events) => {
      for (const event of events) {
        stores.onEvent(P0, { epoch: 1, seq: now - 1000, tsUnixMs: now, receivedAtUnixMs: now, isReplayed: false }, event);
        now += 1;
      }
    },
    ask: (question = {}, fromUnixMs = 0) => {
      const stream = index.stream(P0.id);
      if (stream === undefined) throw new Error('no stream');
      return eventTokens(index.graph, {
        spans: [{ stream, ...stores.between(P0.id, fromUnixMs, Number.POSITIVE_INFINITY) }],
        promptTokens: 7, cachedTokens: 0, salt: undefined, lora: undefined, sessionId: undefined, isGenerating: false, others: [], isReporting: false, ...question,
      });
    },
  };
}

const found = (tokens: readonly number[], extra: object = {}): object => ({ ok: true, prompt: { tokens: Uint32Array.from(tokens), from: 'events', media: [], length: 7, ...extra } });
const reason = (text: string): object => ({ ok: false, reason: expect.stringContaining(text) });
const A = [100, 101, 102, 103, 104, 105];
const B = [100, 101, 102, 103, 204, 205];

describe('tokens from events', () => {
  it('reads whole blocks, those of a prompt computed in parts too, and those found in the cache up the chain', () => {
    const { tell, ask } = setUp();
    tell(stored([1, 2], { tokens: A.slice(0, 4) }), stored([3], { parent: 2, tokens: A.slice(4) }));
    expect(ask()).toEqual(found(A));
    tell(stored([4], { parent: 2, tokens: B.slice(4) }));
    expect(ask({ cachedTokens: 4 }, 1002)).toEqual(found(B));
  });

  it('cuts off the answer that follows, by the prompt tokens of the usage, and needs them for that', () => {
    const { tell, ask } = setUp();
    tell(stored([1, 2, 3], { tokens: A }), stored([4], { parent: 3, tokens: [900, 901] }));
    expect(ask({ isGenerating: true })).toEqual(found(A));
    expect(ask({ isGenerating: true, promptTokens: undefined })).toEqual(reason('no usage'));
  });

  it('without usage takes the only chain of a prefill, when nobody else ran, and claims no length', () => {
    const { tell, ask } = setUp();
    tell(stored([1, 2], { tokens: A.slice(0, 4) }), stored([3], { parent: 2, tokens: A.slice(4) }));
    const answer = ask({ promptTokens: undefined, cachedTokens: undefined });
    expect(answer).toEqual({ ok: true, prompt: { tokens: Uint32Array.from(A), from: 'events', media: [] } });
    expect(ask({ promptTokens: undefined, cachedTokens: undefined, others: [3] })).toEqual(reason('other requests ran'));
    tell(stored([9], { tokens: [7, 7] }));
    expect(ask({ promptTokens: undefined, cachedTokens: undefined })).toEqual(reason('2 prompts of the same length'));
  });

  it('tells two prompts of one length apart by cached tokens or session, and else does not choose', () => {
    const { tell, ask } = setUp();
    tell(stored([1, 2, 3], { tokens: A, sessionId: 'sa' }), stored([4], { parent: 2, tokens: B.slice(4), sessionId: 'sb' }));
    expect(ask({ cachedTokens: 0 })).toEqual(found(A));
    expect(ask({ cachedTokens: 4 })).toEqual(found(B));
    expect(ask({ cachedTokens: undefined })).toEqual(reason('2 prompts of the same length'));
    expect(ask({ cachedTokens: undefined, sessionId: 'sb', others: [undefined] })).toEqual(found(B));
    expect(ask({ cachedTokens: undefined, sessionId: 'sc' })).toEqual(reason('other keys'));
  });

  it('does not believe a length alone while another request may have stored as much', () => {
    const { tell, ask } = setUp();
    tell(stored([1, 2, 3], { tokens: A }));
    expect(ask({ cachedTokens: undefined, others: [undefined] })).toEqual(reason('other requests ran'));
    expect(ask({ cachedTokens: undefined, others: [6] })).toEqual(reason('other requests ran'));
    expect(ask({ cachedTokens: undefined, others: [5] })).toEqual(found(A));
    // Storing began where the engine says it had nothing: its own.
    expect(ask({ cachedTokens: 0, others: [undefined] })).toEqual(found(A));
  });

  it('takes no blocks under other keys, and media with the blocks', () => {
    const { tell, ask } = setUp();
    tell(stored([1, 2, 3], { tokens: A, extraKeys: [['tenant'], null, [['picture', 1]]] }));
    expect(ask()).toEqual(reason('other keys'));
    expect(ask({ salt: 'tenant' })).toEqual(found(A, { mediaByBlock: [undefined, undefined, [['picture', 1]]] }));
  });

  it('says why there is nothing to read', () => {
    const { tell, ask } = setUp();
    expect(ask()).toEqual(reason('published no block'));
    tell(stored([2, 3], { parent: 1, tokens: A.slice(2) }));
    expect(ask()).toEqual(reason('blocks that pdscope never saw'));
    expect(ask({ promptTokens: 1 })).toEqual(reason('fills no block of 2'));
    expect(ask({}, 5000)).toEqual(reason('stored no block'));
    expect(ask({ cachedTokens: 6 }, 5000)).toEqual(reason('found 6 of 7 tokens in its cache'));
    tell(stored([11], { tokens: A.slice(0, 2) }));
    expect(ask()).toEqual(reason('as long as the prompt'));
  });

  it('remembers a bounded number of stores, and does not take a part for the whole', () => {
    const { tell, ask, stores } = setUp();
    for (let block = 0; block < 600; block += 1) tell(stored([10 + block], { tokens: [block, block] }), removed([10 + block]));
    expect(stores.between(P0.id, 0, 9000)).toMatchObject({ isWhole: false });
    expect(stores.between(P0.id, 0, 9000).stores).toHaveLength(512);
    expect(ask({ promptTokens: 3 })).toEqual(reason('than are remembered'));
    expect(stores.between(P0.id, 2000, 9000)).toMatchObject({ isWhole: true });
    stores.onEpoch(P0, { ended: 1, reason: 'restart' });
    expect(stores.between(P0.id, 0, 9000)).toEqual({ stores: [], isWhole: true });
  });

  it('keeps no stores that tell no tokens: other media, groups whose hashes skip blocks, placeholders', () => {
    const { tell, stores } = setUp();
    tell(stored([1], { medium: 'CPU' }), stored([2], { specKind: 'sliding_window' }), stored([3], { blockSize: 0, tokens: [] }), stored([4, 5], { tokens: [1, 2, 3] }));
    expect(stores.between(P0.id, 0, 9000).stores).toEqual([]);
  });
});
