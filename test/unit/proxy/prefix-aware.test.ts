import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import type { Instance } from '#engine/fleet/instance.ts';
import type { ClientRequest } from '#engine/proxy/client-request.ts';
import { createPolicy } from '#engine/proxy/policies/policies.ts';
import type { InstancePrefix, PrefixQuery } from '#engine/proxy/policies/prefix-lookup.ts';
import type { Choice } from '#engine/proxy/policies/policy.ts';
import { PromptView } from '#engine/proxy/prompt-view.ts';
import type { InstanceId } from '#shared/ids.ts';

interface Candidate {
  readonly legs: number;
  /** Absent: no stream. */
  readonly matched?: number;
  readonly confidence?: number;
  readonly doubt?: string;
}

const PROMPT_TOKENS = 160;

function instanceOf({ legs }: Candidate, index: number): Instance {
  return { id: `p${index}`, name: `P${index}`, inFlight: legs, dpSize: 1, rankInFlight: [legs] } as unknown as Instance;
}

function entryOf({ matched, confidence = 1, doubt }: Candidate, index: number): InstancePrefix[] {
  if (matched === undefined) return [];
  return [{ instance: `p${index}` as InstanceId, matchedTokens: matched, matchedBlocks: matched / 16, confidence, ...(doubt !== undefined && { doubt }) }];
}

function request(extra: object = { prompt: Array.from({ length: PROMPT_TOKENS }, (_, index) => index) }, api: ClientRequest['api'] = 'completions'): ClientRequest {
  const json = { model: 'm', ...extra };
  return { api, requestId: 'r', headers: {}, body: Buffer.from(JSON.stringify(json)), json, members: [], isStream: false };
}

function view(candidates: readonly Candidate[], asked: PrefixQuery[] = []): PromptView {
  return new PromptView(request(), {
    holdsAny: () => true,
    prefix(query) {
      asked.push(query);
      return candidates.flatMap(entryOf);
    },
  });
}

function choose(candidates: readonly Candidate[], times = 1): Choice {
  const policy = createPolicy('prefix-aware');
  let choice: Choice | undefined;
  for (let time = 0; time < times; time += 1) choice = policy.choose(candidates.map(instanceOf), 'prefill', view(candidates));
  if (choice === undefined) throw new Error('nothing was chosen');
  return choice;
}

const candidate = fc.record({
  legs: fc.integer({ min: 0, max: 60 }),
  matched: fc.integer({ min: 0, max: PROMPT_TOKENS / 16 }).map((blocks) => blocks * 16),
  confidence: fc.double({ min: 0.2, max: 1, noNaN: true }),
});

function scoreOf(choice: Choice, index: number): number {
  return choice.scores[index]?.score ?? Number.NaN;
}

describe('prefix-aware', () => {
  it('takes a lowest score, whatever the candidates, and explains every one of them', () => {
    fc.assert(
      fc.property(fc.array(candidate, { minLength: 1, maxLength: 12 }), (candidates) => {
        const choice = choose(candidates);
        const chosen = Number(choice.chosen.id.slice(1));
        expect(choice.degraded).toBeUndefined();
        expect(choice.scores.map(({ matchedTokens, matchedBlocks, confidence }) => ({ matchedTokens, matchedBlocks, confidence }))).toEqual(
          candidates.map(({ matched, confidence }) => ({ matchedTokens: matched, matchedBlocks: matched / 16, confidence })),
        );
        expect(scoreOf(choice, chosen)).toBe(Math.min(...choice.scores.map(({ score }) => score ?? Number.NaN)));
      }),
    );
  });

  it('never scores an instance worse for holding more, for being trusted more, or for having less to do', () => {
    fc.assert(
      fc.property(fc.array(candidate, { minLength: 2, maxLength: 8 }), candidate, (others, { legs, matched, confidence }) => {
        const score = (one: Candidate): number => scoreOf(choose([one, ...others]), 0);
        const base = score({ legs, matched, confidence });
        expect(score({ legs, matched: Math.min(PROMPT_TOKENS, matched + 16), confidence })).toBeLessThanOrEqual(base);
        expect(score({ legs, matched, confidence: Math.min(1, confidence + 0.1) })).toBeLessThanOrEqual(base);
        // Fewer legs may lower the mean that differences are measured by, which moves every score alike or closer to its match.
        const fewest = Math.min(...others.map((other) => other.legs));
        expect(score({ legs: Math.min(legs, fewest), matched, confidence })).toBeLessThanOrEqual(base);
      }),
    );
  });

  it('never buries a holder: the chosen one has at most twice the mean, or eight legs, more than the least busy', () => {
    fc.assert(
      fc.property(fc.array(candidate, { minLength: 1, maxLength: 12 }), (candidates) => {
        const legs = candidates.map((one) => one.legs);
        const mean = legs.reduce((sum, count) => sum + count, 0) / legs.length;
        const excess = choose(candidates).chosen.inFlight - Math.min(...legs);
        expect(excess).toBeLessThanOrEqual(2 * Math.max(4, mean) + 1e-6);
      }),
    );
  });

  it('falls back to the fewest legs among equals, in turns', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 8 }), fc.integer({ min: 0, max: 5 }), (legs, blocks) => {
        const choice = choose(legs.map((count) => ({ legs: count, matched: blocks * 16 })));
        expect(choice.chosen.inFlight).toBe(Math.min(...legs));
      }),
    );
    expect(Array.from({ length: 4 }, (_, index) => choose([{ legs: 1, matched: 32 }, { legs: 1, matched: 32 }, { legs: 1, matched: 0 }], index + 1).chosen.name)).toEqual(['P0', 'P1', 'P0', 'P1']);
  });

  it('prefers the holder, by trust, until it is much busier', () => {
    expect(choose([{ legs: 0, matched: 0 }, { legs: 3, matched: 160 }]).chosen.name).toBe('P1');
    expect(choose([{ legs: 0, matched: 0 }, { legs: 20, matched: 160 }]).chosen.name).toBe('P0');
    expect(choose([{ legs: 1, matched: 96 }, { legs: 1, matched: 160, confidence: 0.5 }]).chosen.name).toBe('P0');
    expect(choose([{ legs: 1, matched: 96 }, { legs: 1, matched: 160, confidence: 0.9 }])).toMatchObject({
      chosen: { name: 'P1' },
      scores: [
        { instance: 'p0', name: 'P0', score: 0.4, reason: 'holds 96 of 160 tokens (6 blocks), 1 in flight', matchedTokens: 96, matchedBlocks: 6, confidence: 1 },
        { score: 0.1, reason: 'holds 160 of 160 tokens (10 blocks), confidence 90 %, 1 in flight' },
      ],
    });
  });

  it('goes to an instance without a stream only by load', () => {
    const choice = choose([{ legs: 2 }, { legs: 2, matched: 16 }]);
    expect(choice).toMatchObject({ chosen: { name: 'P1' }, scores: [{ score: 1, reason: 'no KV event stream, 2 in flight' }, { score: 0.9 }] });
    expect(choice.scores[0]).not.toHaveProperty('matchedTokens');
  });

  it('pins the rank that holds the prefix, and weighs that rank’s load', () => {
    const ranked = (id: string, rankInFlight: number[]): Instance => ({ id, name: id.toUpperCase(), inFlight: 9, dpSize: 2, rankInFlight }) as unknown as Instance;
    const prompt = new PromptView(request(), { holdsAny: () => true, prefix: () => [
        { instance: 'p0' as InstanceId, rank: 0, matchedTokens: 16, matchedBlocks: 1, confidence: 1 },
        { instance: 'p0' as InstanceId, rank: 1, matchedTokens: 80, matchedBlocks: 5, confidence: 1 },
        { instance: 'p1' as InstanceId, rank: 0, matchedTokens: 0, matchedBlocks: 0, confidence: 1 },
      ],
    });
    const choice = createPolicy('prefix-aware').choose([ranked('p0', [7, 2]), ranked('p1', [4, 5])], 'decode', prompt);
    expect(choice).toMatchObject({ chosen: { name: 'P0' }, rank: 1, scores: [{ reason: 'holds 80 of 160 tokens (5 blocks) on rank 1, 9 in flight', score: 0.5 }, { matchedTokens: 0 }] });
    const other = createPolicy('prefix-aware').choose([ranked('p1', [4, 5])], 'decode', prompt);
    expect(other).not.toHaveProperty('rank');
  });
});

describe('prefix-aware says that it balances by load, and why', () => {
  const policy = () => createPolicy('prefix-aware');
  const two = [{ legs: 3, matched: 160 }, { legs: 1, matched: 0 }].map(instanceOf);
  const degradedBy = (prompt: PromptView | undefined) => {
    const choice = policy().choose(two, 'prefill', prompt);
    expect(choice.chosen.name).toBe('P1');
    return choice.degraded;
  };
  const lookup = (entries: readonly InstancePrefix[]) => ({ holdsAny: () => true, prefix: () => entries });

  it.each([
    ['no prompt', undefined, 'the request has no prompt that could be looked up'],
    ['no index', new PromptView(request(), undefined), 'there is no block index'],
    ['no tokens', new PromptView(request({ prompt: 'text' }), lookup([])), "the prompt's tokens are not known"],
    ['several prompts', new PromptView(request({ prompt: ['a', 'b'] }), lookup([])), '2 prompts in one request'],
    ['a cut prompt', new PromptView(request({ prompt: [1, 2], truncate_prompt_tokens: 1 }), lookup([])), 'truncate_prompt_tokens: the engine cuts the prompt'],
    ['embeddings', new PromptView(request({ prompt_embeds: 'x' }), lookup([])), 'prompt_embeds: the prompt has no tokens'],
    ['media', new PromptView(request({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] }, 'chat'), lookup([])), 'the prompt has media, whose tokens and keys only engines know'],
    ['media in tokens', new PromptView(request({ token_ids: [1], features: { mm_hashes: {} } }, 'generate'), lookup([])), 'the prompt has media, whose keys only engines know'],
    ['no streams', new PromptView(request(), lookup([])), 'no KV event stream tells what these instances hold'],
    ['streams of others', new PromptView(request(), lookup([{ instance: 'd9' as InstanceId, matchedTokens: 160, matchedBlocks: 10, confidence: 1 }])), 'no KV event stream tells what these instances hold'],
    [
      'low confidence',
      new PromptView(request(), lookup([{ instance: 'p0' as InstanceId, matchedTokens: 160, matchedBlocks: 10, confidence: 0.1, doubt: 'joined late' }])),
      'KV events cannot be trusted (confidence 10 % at best: joined late)',
    ],
  ] as const)('%s', (_what, prompt, why) => {
    expect(degradedBy(prompt)).toBe(`balanced by load: ${why}`);
  });

  it('but not for legs that read no cache', () => {
    expect(policy().choose(two, 'render', undefined)).toMatchObject({ chosen: { name: 'P1' } });
    expect(policy().choose(two, 'render', undefined)).not.toHaveProperty('degraded');
  });
});

describe('the prompt as routing sees it', () => {
  it('asks with the tokens, the model and the salt, once for choices of one moment', () => {
    const asked: PrefixQuery[] = [];
    const prompt = new PromptView(request({ prompt: [[7, 8, 9]], cache_salt: 's' }), {
      holdsAny: () => true,
      prefix(query) {
        asked.push(query);
        return [];
      },
    });
    expect(prompt.wantsTokens).toBe(false);
    prompt.holders();
    prompt.holders();
    expect(asked).toEqual([{ tokens: Uint32Array.of(7, 8, 9), model: 'm', salt: 's', requestId: 'r' }]);
    prompt.learn(Uint32Array.of(1), 'render');
    prompt.holders();
    expect(asked).toHaveLength(2);
    expect(prompt.tokensFrom).toBe('render');
  });

  it('takes the ids of a generate request', () => {
    expect(new PromptView(request({ token_ids: [5, 6] }, 'generate'), { holdsAny: () => true, prefix: () => [] }).tokens).toEqual(Uint32Array.of(5, 6));
  });
});
