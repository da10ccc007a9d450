import { describe, expect, it } from 'vitest';
import { placeOf } from '#engine/cache/cause-place.ts';
import { grouped, groupOf } from '#engine/cache/cause-group.ts';
import { divergenceTitle } from '#engine/cache/cause-title.ts';
import { namedCauses } from '#engine/cache/cause-names.ts';
import type { KeptMiss, MissShare } from '#engine/cache/kept-report.ts';
import { missShares } from '#engine/cache/miss-shares.ts';
import { gatherMisses, type ExplainedRecord } from '#engine/cache/miss-summary.ts';
import type { TokenText } from '#engine/cache/token-text.ts';
import type { MissKind, MissRange } from '#shared/cache.ts';
import type { Role } from '#shared/vocabulary.ts';
import { RecordIdSchema } from '#shared/ids.ts';

const PROMPT = Uint32Array.from({ length: 100 }, (_, index) => index);
const range = (kind: MissKind, tokens: number, extra: Partial<MissRange> = {}): MissRange => ({ kind, fromBlock: 0, toBlock: 0, tokens, message: '', ...extra });
const diverges = (token: number): Pick<MissRange, 'diverges'> => ({ diverges: { block: 2, token, asked: { tokens: [38, 39, 40, 41] }, held: { tokens: [38, 39, 900, 901] } } });

describe('missShares', () => {
  it('counts what follows a first miss under its cause, and the end of the prompt by itself', () => {
    const shares = missShares([range('hit', 32), range('diverges', 16, diverges(40)), range('diverges', 32), range('partial-block', 4)], PROMPT);
    expect(shares.map(({ kind, tokens }) => [kind, tokens])).toEqual([['diverges', 48], ['partial-block', 4]]);
    expect(shares[0]).toMatchObject({ title: 'differs after 40 tokens', place: { token: 40, lead: Array.from(PROMPT.subarray(8, 40)), asked: Array.from(PROMPT.subarray(40, 64)), held: [900, 901] } });
  });

  it('keeps other kinds of misses of one prompt apart, and has nothing to say of a hit', () => {
    expect(missShares([range('evicted', 16), range('elsewhere', 16), range('evicted', 16)], PROMPT).map(({ key, tokens }) => [key, tokens])).toEqual([['evicted', 32], ['elsewhere', 16]]);
    expect(missShares([range('hit', 100)], PROMPT)).toEqual([]);
  });

  it('tells blocks that another choice would have found from those that no instance of the role holds', () => {
    const on = (...roles: Role[]): Pick<MissRange, 'elsewhere'> => ({ elsewhere: roles.map((role, at) => ({ stream: `x${at}/0` as never, instance: 'x' as never, instanceName: 'X', role, medium: 'GPU' })) });
    const titleOf = (...roles: Role[]): string | undefined => missShares([range('elsewhere', 16, on(...roles))], PROMPT, 'prefill')[0]?.title;
    expect(titleOf('decode', 'prefill')).toBe('held by another instance than the one chosen');
    expect(titleOf('both')).toBe('held by another instance than the one chosen');
    expect(titleOf('decode', 'decode')).toBe('held by decode instances only, where no prefill leg goes');
  });

  it('tells keys and gaps apart', () => {
    const shares = missShares([range('other-key', 1, { key: { what: 'salt' } }), range('unknown', 2, { gap: { stream: 'p0/0' as never, fromSeq: 1, toSeq: 2 } })], PROMPT);
    expect(shares.map(({ key, title }) => [key, title])).toEqual([['other-key salt', 'stored under another cache salt'], ['unknown gap', 'not known: events are missing']]);
  });
});

function record(n: number, why: KeptMiss | undefined): ExplainedRecord {
  return { id: RecordIdSchema.parse(`r${n}`), n, why };
}

function explained(n: number, ranges: readonly MissRange[]): ExplainedRecord {
  return record(n, {
    state: 'ready', leg: 0, bytes: 0, shares: missShares(ranges, PROMPT),
    report: { request: RecordIdSchema.parse(`r${n}`), state: 'ready', promptTokens: 100, ranges, matches: [], confidence: { value: 1, reasons: [] } },
  });
}

describe('gatherMisses', () => {
  it('gathers equal causes, the heaviest first, with their share and the latest requests', () => {
    const summary = gatherMisses([
      explained(1, [range('hit', 50), range('never-stored', 50)]),
      explained(2, [range('hit', 32), range('diverges', 68, diverges(40))]),
      explained(3, [range('hit', 32), range('diverges', 68, diverges(40))]),
      explained(4, [range('hit', 100)]),
      record(5, { state: 'unavailable', reason: 'no tokenizer', isPending: false }),
      record(6, { state: 'unavailable', reason: 'wait', isPending: true }),
      record(7, undefined),
    ], { windowS: 300, canOpen: () => false });
    expect(summary).toMatchObject({ windowS: 300, requests: 4, of: 5, opened: 0, openable: 0, promptTokens: 400, missedTokens: 186, unexplained: [{ reason: 'no tokenizer', requests: 1 }] });
    expect(summary.causes.map(({ kind, tokens, requestCount, requests }) => [kind, tokens, requestCount, requests.map(({ n }) => n)])).toEqual([['diverges', 136, 2, [3, 2]], ['never-stored', 50, 1, [1]]]);
    expect(summary.causes[0]?.share).toBeCloseTo(136 / 186);
  });

  it('is empty without requests', () => {
    expect(gatherMisses([], { windowS: 60, canOpen: () => true })).toEqual({ windowS: 60, requests: 0, of: 0, opened: 0, openable: 0, promptTokens: 0, missedTokens: 0, unexplained: [], causes: [] });
  });

  it('leaves out of every sum what was explained only since somebody opened it, and says how much is explained when opened', () => {
    const opened = explained(2, [range('hit', 10), range('evicted', 5000)]);
    if (opened.why?.state !== 'ready') throw new Error('not explained');
    const left = (n: number): ExplainedRecord => record(n, { state: 'unavailable', reason: 'more requests came', isPending: false });
    const summary = gatherMisses([
      explained(1, [range('hit', 50), range('never-stored', 50)]),
      { ...opened, why: { ...opened.why, report: { ...opened.why.report, isOpened: true } } },
      left(3), left(4), left(5),
    ], { windowS: 300, canOpen: (id) => id !== 'r4' });
    expect(summary).toMatchObject({ requests: 1, of: 5, opened: 1, openable: 2, promptTokens: 100, missedTokens: 50, unexplained: [{ requests: 3 }] });
    expect(summary.causes.map(({ kind }) => kind)).toEqual(['never-stored']);
  });

  it('sums up causes beyond fifty, and reasons beyond twenty, without losing a token or a request', () => {
    const many = Array.from({ length: 80 }, (_, index) => explained(index, [range('diverges', 100 + index, diverges(index + 1))]));
    const reasons = Array.from({ length: 30 }, (_, index) => record(1000 + index, { state: 'unavailable', reason: `reason ${index}`, isPending: false }));
    const { causes, missedTokens, unexplained } = gatherMisses([...many, ...reasons], { windowS: 60, canOpen: () => false });
    expect(causes).toHaveLength(51);
    expect(causes.reduce((sum, { tokens }) => sum + tokens, 0)).toBe(missedTokens);
    expect(causes.find(({ title }) => title === 'differs in many other places')).toMatchObject({ requestCount: 30, shown: [] });
    expect(unexplained).toHaveLength(21);
    expect(unexplained.reduce((sum, { requests }) => sum + requests, 0)).toBe(30);
  });
});

describe('what divergences have in common', () => {
  const share = (token: number): MissShare => ({ kind: 'diverges', key: `diverges ${token} 1,2,3`, title: `differs after ${token} tokens`, tokens: 32, place: { token, lead: [1, 2, 3], asked: [4], held: [5] } });
  const keyOf = (token: number, text: Parameters<typeof groupOf>[0]): string => grouped(share(token), groupOf(text), 16).key;

  it('a varying field is one cause by its name and part of the prompt, wherever it stands and whatever it says', () => {
    const at = (lead: string, where = 'the system prompt'): Parameters<typeof groupOf>[0] => ({ lead, asked: '10 UTC', held: '27 UTC', where });
    const key = keyOf(96, at('rule19 Current time: 2026-11-21 04:'));
    expect(key).toBe('diverges timestamp the system prompt current time');
    expect(keyOf(5, at('You are kind. Current time: 2026-1'))).toBe(key);
    expect(keyOf(5, at('\nCurrent time: 2026-11-21T04:'))).toBe(key);
    expect(keyOf(5, at('\nToday is 2026-1'))).not.toBe(key);
    expect(keyOf(96, at('rule19 Current time: 2026-11-21 04:', 'a user message'))).not.toBe(key);
  });

  it('other text in a user message is one cause, also where it is a number', () => {
    const keys = [keyOf(83, { lead: '<|im_start|>user\n', asked: 'Please', held: 'Tell me', where: 'a user message' }), keyOf(140, { lead: 'Count to ', asked: '12', held: '17', where: 'a user message' })];
    expect(keys).toEqual(['diverges text a user message', 'diverges text a user message']);
    expect(keyOf(83, { lead: 'Chapter ', asked: '12', held: '17', where: 'the system prompt' })).toBe('diverges number the system prompt chapter');
  });

  it('a prompt that differs within the first block was never seen; but a varying field there is what it is', () => {
    const text = { lead: '<|im_start|>user\n', asked: 'Please', held: 'Tell me', where: 'a user message' };
    expect(grouped(share(15), groupOf(text), 16)).toEqual({ kind: 'never-stored', key: 'never-stored', title: 'never seen before', tokens: 32 });
    expect(keyOf(16, text)).toBe('diverges text a user message');
    expect(keyOf(4, { lead: 'Now: ', asked: '2026-11-21 04:10', held: '2026-11-20 18:00', where: undefined })).toBe('diverges timestamp  now');
  });

  it('of which nothing is known but the place stays by itself', () => {
    expect(keyOf(50, { lead: 'a ', asked: 'cats', held: 'dogs', where: undefined })).toBe('diverges 50 1,2,3');
    expect(grouped({ kind: 'evicted', key: 'evicted', title: '', tokens: 1 }, groupOf({ lead: '', asked: '', held: '' }), 16).key).toBe('evicted');
  });

  it('is named without a position when positions differ, with the latest as examples', async () => {
    const records = [40, 56].map((token, at): ExplainedRecord => {
      const own = grouped(share(token), { where: 'a user message', what: undefined, stem: '' }, 16);
      return record(at, { state: 'ready', leg: 0, bytes: 0, shares: [own], report: { request: RecordIdSchema.parse('r'), state: 'ready', promptTokens: 100, ranges: [], matches: [], confidence: { value: 1, reasons: [] } } });
    });
    const { causes } = gatherMisses(records, { windowS: 60, canOpen: () => false });
    const text = { decode: (questions: readonly { readonly tokens: readonly number[] }[]) => Promise.resolve(questions.map(({ tokens }) => `<${tokens.join('+')}>`)) } as unknown as TokenText;
    expect(await namedCauses(causes, text)).toEqual([{
      id: 'diverges text a user message', kind: 'diverges', title: 'different text in a user message', tokens: 64, share: 1, requestCount: 2, requests: [{ id: 'r1', n: 1 }, { id: 'r0', n: 0 }],
      examples: [{ id: 'r1', n: 1, token: 56, asked: '<4>', held: '<5>' }, { id: 'r0', n: 0, token: 40, asked: '<4>', held: '<5>' }],
    }]);
  });
});

describe('divergenceTitle', () => {
  it.each([
    ['Today: ', '2026-11-21 04:10', '2026-11-20 18:00', 'timestamp'],
    ['Current time: 2026-11-21 04:', '10 UTC', '27 UTC', 'timestamp'],
    ['The clock says ', '9 o', '11 o', 'timestamp'],
    ['now=', '1795235332', '1795235999', 'timestamp'],
    ['Session id: ', 'ab12', 'cd34', 'identifier'],
    ['run ', '0f8fad5b-d9cb-469f', '7c9e6679-7425-40de', 'identifier'],
    ['Chapter ', '12', '13', 'number'],
  ])('%j followed by %j or %j is a %4$s', (lead, asked, held, what) => {
    expect(divergenceTitle(96, { lead, asked, held, where: 'the system prompt' })).toBe(`${what} in the system prompt, after 96 tokens: "${lead.trimStart()}"`);
  });

  it('says no more than it sees', () => {
    expect(divergenceTitle(12, { lead: 'Write about ', asked: 'cats', held: 'dogs' })).toBe('differs after 12 tokens: "Write about "');
    expect(divergenceTitle(12, { lead: 'Write about ', asked: 'cats', held: 'dogs', where: 'a user message' })).toBe('different text in a user message, after 12 tokens: "Write about "');
    expect(divergenceTitle(0, { lead: '', asked: 'cats', held: 'dogs' })).toBe('differs after 0 tokens');
    expect(divergenceTitle(5, { lead: `${'x'.repeat(60)}\n end`, asked: 'a', held: 'b' })).toBe(`differs after 5 tokens: "…${'x'.repeat(44)} end"`);
  });
});

describe('placeOf', () => {
  const json = {
    tools: [{ type: 'function', function: { name: 'get_weather' } }],
    messages: [
      { role: 'system', content: 'You are helpful. It is 04:10 now.' },
      { role: 'user', content: [{ type: 'text', text: 'What is the weather in Paris?' }, { type: 'image_url', image_url: {} }] },
      { role: 'assistant', content: 'Sunny and warm.' },
    ],
  };
  it.each([
    ['helpful. It is ', '04:10 now.<|im_end|>', 'the system prompt'],
    ['<|im_start|>user\nWhat is the ', 'weather in Paris?', 'a user message'],
    ['<|im_end|>\n<|im_start|>assistant\n', 'Sunny and warm.', 'an earlier answer'],
    ['"name":"', 'get_weather', 'the tool definitions'],
    ['elsewhere ', 'entirely so', undefined],
    ['', 'is', undefined],
  ])('%j then %j stands in %s', (lead, asked, place) => {
    expect(placeOf(json, { lead, asked })).toBe(place);
  });

  it('does not choose between two places', () => {
    expect(placeOf({ messages: [{ role: 'user', content: 'the same text' }, { role: 'assistant', content: 'the same text' }] }, { lead: 'the ', asked: 'same text' })).toBeUndefined();
  });
});
