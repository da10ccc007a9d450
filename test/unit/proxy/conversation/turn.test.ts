/** Whether a prompt extends a turn: checked against a model that renders prompts to text and looks for the prefix. */
import { fc } from '../../../support/properties.ts';
import { describe, expect, test } from 'vitest';
import type { Api } from '#shared/vocabulary.ts';
import type { ClientRequest } from '#engine/proxy/client-request.ts';
import { readStreamedAnswer, readWholeAnswer, type Answered } from '#engine/proxy/connectors/conversation/answered.ts';
import { describeSent, keepTurn, refusalOf, type Refusal } from '#engine/proxy/connectors/conversation/turn.ts';
import { scanMembers } from '#engine/proxy/json-members.ts';

function request(api: Api, json: object | string): ClientRequest {
  const body = Buffer.from(typeof json === 'string' ? json : JSON.stringify(json));
  const members = scanMembers(body);
  if (members === undefined) throw new Error('not an object');
  return { api, requestId: 'r', headers: {}, body, json: JSON.parse(body.toString()) as Record<string, unknown>, members, isStream: false };
}

const plain = (more: Partial<Answered>): Answered => ({ hasReasoning: false, otherMembers: [], finishReason: 'stop', ...more });

function judge(api: Api, turns: { readonly first: object | string; readonly answered: Answered | undefined; readonly next: object | string; readonly held?: number }): Refusal | undefined {
  const kept = keepTurn(describeSent(request(api, turns.first)), turns.answered, turns.held);
  return 'why' in kept ? kept : refusalOf(kept, describeSent(request(api, turns.next)));
}

const message = fc.record({ role: fc.constantFrom('user', 'assistant', 'system', 'tool'), content: fc.oneof(fc.string(), fc.constant(null), fc.array(fc.record({ type: fc.constant('text'), text: fc.string() }))) });
const messages = fc.array(message, { minLength: 1, maxLength: 8 });
const answer = fc.string({ unit: fc.constantFrom('a', 'B', 'é', '🌧', ' ', '.'), minLength: 1, maxLength: 20 }).filter((text) => text.trim() === text);

describe('chat', () => {
  test('an extension is always recognised', () => {
    fc.assert(
      fc.property(messages, answer, fc.array(message), (history, content, more) => {
        const next = { model: 'm', messages: [...history, { role: 'assistant', content }, ...more], temperature: 1 };
        expect(judge('chat', { first: { model: 'm', messages: history }, answered: plain({ content }), next })).toBeUndefined();
      }),
    );
  });

  test('any change to a message of the history is found, with its index', () => {
    fc.assert(
      fc.property(messages, answer, fc.nat(), message, (history, content, at, other) => {
        const index = at % history.length;
        fc.pre(JSON.stringify(history[index]) !== JSON.stringify(other));
        const next = { messages: [...history.with(index, other), { role: 'assistant', content }] };
        expect(judge('chat', { first: { messages: history }, answered: plain({ content }), next })).toMatchObject({ code: 'conversation_edited', why: expect.stringContaining(`message ${index} `) });
      }),
    );
  });

  test('any other history is refused, unless it extends the turn', () => {
    fc.assert(
      fc.property(messages, answer, messages, (history, content, other) => {
        const whole = [...history, { role: 'assistant', content }];
        const isExtension = JSON.stringify(other).startsWith(JSON.stringify(whole).slice(0, -1)) && other.length >= whole.length;
        expect(judge('chat', { first: { messages: history }, answered: plain({ content }), next: { messages: other } }) === undefined).toBe(isExtension);
      }),
    );
  });

  test('numbers and key order that templates print are differences', () => {
    const first = '{"messages":[{"role":"user","content":"x","args":{"a":1,"b":12345678901234567890}}]}';
    const next = (args: string): string => `{"messages":[{"role":"user","content":"x","args":${args}},{"role":"assistant","content":"y"}]}`;
    const answered = plain({ content: 'y' });
    expect(judge('chat', { first, answered, next: next('{"a":1,"b":12345678901234567890}') })).toBeUndefined();
    for (const args of ['{"a":1.0,"b":12345678901234567890}', '{"a":1,"b":12345678901234567891}', '{"b":12345678901234567890,"a":1}']) {
      expect(judge('chat', { first, answered, next: next(args) })).toMatchObject({ why: expect.stringContaining('message 0 ') });
    }
  });

  test.each<[object, Refusal['code'] | undefined]>([
    [{ tools: [1] }, 'conversation_settings_changed'],
    [{ documents: [1] }, 'conversation_settings_changed'],
    [{ chat_template: 'x' }, 'conversation_settings_changed'],
    [{ reasoning_effort: 'low' }, 'conversation_settings_changed'],
    [{ add_generation_prompt: false }, 'conversation_settings_changed'],
    [{ something_new: 1 }, 'conversation_settings_changed'],
    [{ something_new: null, cache_salt: null }, undefined],
    [{ max_tokens: 1, top_p: 0.5, n: 1, logprobs: true, stream: true, user: 'u', request_id: 'q', kv_transfer_params: {} }, undefined],
  ])('next turn with %j: %s', (more, code) => {
    const next = { messages: [{ role: 'user', content: 'x' }, { role: 'assistant', content: 'y' }], ...more };
    expect(judge('chat', { first: { messages: [{ role: 'user', content: 'x' }] }, answered: plain({ content: 'y' }), next })?.code).toBe(code);
  });

  test.each<[object, Partial<Answered> | undefined, Refusal['code']]>([
    [{ truncate_prompt_tokens: 100 }, {}, 'conversation_not_comparable'],
    [{ continue_final_message: true }, {}, 'conversation_not_comparable'],
    [{ include_reasoning: false }, {}, 'reasoning_stripped'],
    [{ chat_template_kwargs: { enable_thinking: false } }, {}, 'reasoning_stripped'],
    [{ chat_template_kwargs: { thinking: false } }, {}, 'reasoning_stripped'],
    [{}, { hasReasoning: true }, 'reasoning_stripped'],
    [{}, { otherMembers: ['tool_calls'] }, 'tool_calls_rerendered'],
    [{}, { otherMembers: ['audio'] }, 'conversation_unknown_answer'],
    [{}, { stopString: 'END' }, 'conversation_unknown_answer'],
    [{}, { content: 'y\uFFFD' }, 'conversation_unknown_answer'],
    [{}, { content: ' y' }, 'conversation_unknown_answer'],
    [{}, { content: 'y\n' }, 'conversation_unknown_answer'],
    [{}, undefined, 'conversation_unknown_answer'],
  ])('a turn of %j answered with %j cannot be kept: %s', (more, answered, code) => {
    const messages = [{ role: 'user', content: 'x' }];
    const next = { messages: [...messages, { role: 'assistant', content: 'y' }], ...more };
    expect(judge('chat', { first: { messages, ...more }, answered: answered && plain({ content: 'y', ...answered }), next })?.code).toBe(code);
  });
});

describe('completions', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', ' ', '.', '\n', '7'), maxLength: 12 });

  test('only a text that goes on after the answer is an extension, and only with a new token', () => {
    fc.assert(
      fc.property(text, text, text, fc.boolean(), (prompt, answered, rest, isExtension) => {
        const next = isExtension ? prompt + answered + rest : rest;
        const refusal = judge('completions', { first: { prompt }, answered: plain({ text: answered }), next: { prompt: next } });
        const whole = prompt + answered;
        const tail = next.slice(whole.length);
        const isBorder = tail === '' || (!/\s$/.test(whole) && (tail.startsWith(' ') || (/[ab7]$/.test(whole) && !/^[ab7]/.test(tail))));
        expect(refusal === undefined).toBe(next.startsWith(whole) && isBorder);
      }),
    );
  });

  const tokens = fc.array(fc.nat(150_000), { maxLength: 20 });

  test.each(['completions', 'generate'] as const)('%s: token ids extend token ids, up to what is held', (api) => {
    fc.assert(
      fc.property(tokens, tokens, tokens, fc.nat(50), (asked, answered, rest, held) => {
        const field = api === 'generate' ? 'token_ids' : 'prompt';
        const whole = [...asked, ...answered];
        const turns = { first: { [field]: asked }, answered: plain({ tokenIds: answered }), held };
        expect(judge(api, { ...turns, next: { [field]: [...whole, ...rest] } })).toBeUndefined();
        const changed = whole.map((token, at) => (at === 0 ? token + 1 : token));
        const isSeen = whole.length > 0 && held > 0;
        expect(judge(api, { ...turns, next: { [field]: [...changed, ...rest] } })?.code).toBe(isSeen ? 'conversation_edited' : undefined);
        expect(judge(api, { ...turns, next: { [field]: whole.slice(0, held) } })).toBeUndefined();
      }),
    );
  });

  test.each([[['a', 'b']], [[1.5]], [[-1]], [{ x: 1 }], [undefined]])('prompt %j cannot be compared', (prompt) => {
    expect(judge('completions', { first: { prompt }, answered: plain({ text: 'x' }), next: { prompt } })?.code).toBe('conversation_not_comparable');
  });

  test('one prompt in a list is that prompt', () => {
    expect(judge('completions', { first: { prompt: ['a'] }, answered: plain({ text: 'b' }), next: { prompt: 'ab c' } })).toBeUndefined();
  });

  test('echo cannot be compared', () => {
    expect(judge('completions', { first: { prompt: 'a', echo: true }, answered: plain({ text: 'ab' }), next: { prompt: 'aab', echo: true } })?.code).toBe('conversation_not_comparable');
  });
});

describe('what was answered', () => {
  const whole = (choice: object, extra: object = {}): Answered | undefined => readWholeAnswer(Buffer.from(JSON.stringify({ choices: [choice], ...extra })));
  const stream = (...chunks: object[]): Answered | undefined =>
    readStreamedAnswer(Buffer.from(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`));

  test('a stream says what the whole answer says, in whatever pieces', () => {
    fc.assert(
      fc.property(fc.array(fc.string(), { minLength: 1 }), fc.array(fc.string()), fc.constantFrom('stop', 'length'), (pieces, reasoning, finish) => {
        const message = { role: 'assistant', content: pieces.join(''), ...(reasoning.join('') !== '' && { reasoning: reasoning.join('') }) };
        const chunks = [
          { choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] },
          ...reasoning.map((text) => ({ choices: [{ index: 0, delta: { reasoning: text }, finish_reason: null }] })),
          ...pieces.map((content) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })),
          { choices: [{ index: 0, delta: {}, finish_reason: finish, stop_reason: null }] },
          { choices: [], usage: { prompt_tokens: 1 } },
        ];
        expect(stream(...chunks)).toEqual(whole({ message, finish_reason: finish }));
      }),
    );
  });

  test('completions and token ids, whole and streamed', () => {
    expect(whole({ text: 'ab', token_ids: [1, 2], finish_reason: 'stop', stop_reason: 'END' })).toEqual({ hasReasoning: false, otherMembers: [], text: 'ab', tokenIds: [1, 2], finishReason: 'stop', stopString: 'END' });
    expect(stream({ choices: [{ index: 0, text: 'a', token_ids: [1] }] }, { choices: [{ index: 0, text: 'b', token_ids: [2], finish_reason: 'stop', stop_reason: 'END' }] })).toEqual(
      whole({ text: 'ab', token_ids: [1, 2], finish_reason: 'stop', stop_reason: 'END' }),
    );
  });

  test('tool calls and reasoning are noticed however they are told', () => {
    expect(whole({ message: { content: null, tool_calls: [{ id: 1 }] }, finish_reason: 'tool_calls' })?.otherMembers).toEqual(['tool_calls']);
    expect(stream({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0 }] }, finish_reason: 'tool_calls' }] })?.otherMembers).toEqual(['tool_calls']);
    expect(whole({ message: { content: 'a</think>b' }, finish_reason: 'stop' })?.hasReasoning).toBe(true);
    expect(whole({ message: { content: 'b', reasoning_content: 'a' }, finish_reason: 'stop' })?.hasReasoning).toBe(true);
    expect(whole({ message: { content: 'b' }, finish_reason: 'stop' }, { usage: { completion_tokens_details: { reasoning_tokens: 3 } } })?.hasReasoning).toBe(true);
    expect(whole({ message: { content: 'b', reasoning: null, tool_calls: [], refusal: null, annotations: [] }, finish_reason: 'stop' })).toMatchObject({ hasReasoning: false, otherMembers: [] });
  });

  test.each(['', 'x', '{}', '{"choices":[]}', '{"choices":[{},{}]}', '{"choices":[{"message":{"content":"a"}'])('%s is not understood', (text) => {
    expect(readWholeAnswer(Buffer.from(text))).toBeUndefined();
  });

  test('several choices, errors and cut events of a stream are not understood', () => {
    expect(stream({ choices: [{ index: 1, delta: {} }] })).toBeUndefined();
    expect(stream({ choices: [{ index: 0, delta: {} }] }, { error: { message: 'x' } })).toBeUndefined();
    expect(readStreamedAnswer(Buffer.from('data: {"choices":[{"ind\n\ndata: [DONE]\n\n'))).toBeUndefined();
    expect(readStreamedAnswer(Buffer.from('\u001f\u008b'))).toBeUndefined();
  });
});
