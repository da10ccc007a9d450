import { describe, expect, it } from 'vitest';
import { promptSource, saltOf, sessionOf } from '#engine/cache/prompt-source.ts';
import { mediaByBlock, mediaOf } from '#engine/cache/prompt-tokens.ts';
import type { RecordedApi } from '#shared/vocabulary.ts';

const of = (api: RecordedApi, body: unknown): ReturnType<typeof promptSource> => promptSource({ api }, Buffer.from(JSON.stringify(body)));
const tokens = (...ids: number[]): object => ({ kind: 'tokens', tokens: Uint32Array.from(ids) });

describe('promptSource', () => {
  it.each<[string, RecordedApi, object, object]>([
    ['token ids of a generate request', 'generate', { token_ids: [1, 2, 3] }, tokens(1, 2, 3)],
    ['a list of ids', 'completions', { prompt: [7, 8] }, tokens(7, 8)],
    ['one list in a list', 'completions', { prompt: [[7, 8]] }, tokens(7, 8)],
    ['the last ids of a cut prompt', 'completions', { prompt: [7, 8, 9], truncate_prompt_tokens: 2 }, tokens(8, 9)],
    ['a text', 'completions', { prompt: 'hi' }, { kind: 'text', text: 'hi' }],
    ['one text in a list', 'completions', { prompt: ['hi'] }, { kind: 'text', text: 'hi' }],
    ['messages', 'chat', { messages: [{ role: 'user', content: 'hi' }] }, { kind: 'chat', hasMedia: false }],
    ['messages in parts', 'chat', { messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }] }, { kind: 'chat', hasMedia: false }],
    ['messages with media', 'chat', { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }, { kind: 'chat', hasMedia: true }],
  ])('reads %s', (_, api, body, expected) => {
    expect(of(api, body)).toMatchObject(expected);
  });

  it.each<[RecordedApi, unknown, string]>([
    ['forward', {}, 'passed on whole'],
    ['chat', [], 'no JSON object'],
    ['chat', {}, 'no messages'],
    ['chat', { messages: [], prompt_logprobs: 0 }, 'prompt_logprobs'],
    ['completions', { prompt: 'hi', echo: true, logprobs: 1 }, 'echo'],
    ['completions', { prompt: ['a', 'b', 'c'] }, '3 prompts'],
    ['completions', { prompt: [[1], [2]] }, '2 prompts'],
    ['completions', { prompt_embeds: 'AAAA' }, 'embeddings'],
    ['completions', { prompt: [1, -2] }, 'no prompt'],
    ['completions', {}, 'no prompt'],
    ['generate', { token_ids: 'x' }, 'no list'],
    ['generate', { token_ids: [1], sampling_params: { prompt_logprobs: 1 } }, 'prompt_logprobs'],
  ])('%s %j cannot be explained, and says why', (api, body, reason) => {
    expect(of(api, body)).toMatchObject({ kind: 'none', reason: expect.stringContaining(reason) });
  });

  it.each(['/v1/responses', '/v1/messages'])('%s has a prompt that no engine renders', (path) => {
    const source = promptSource({ api: 'forward', path }, Buffer.from('{"input":"hi","cache_salt":"s","vllm_xargs":{"session_id":"x"}}'));
    expect(source).toMatchObject({ kind: 'unrendered', reason: `no engine renders or tokenises ${path}` });
    expect([saltOf(source), sessionOf(source, {}), sessionOf(source, { 'x-session-id': 'h' })]).toEqual(['s', 'x', 'h']);
  });

  it('takes a body that is no JSON at all for what it is', () => {
    expect(promptSource({ api: 'chat' }, Buffer.from('{'))).toMatchObject({ kind: 'none' });
  });
});

describe('media', () => {
  it('reads hashes and places in the order of the prompt, and leaves out what has no place', () => {
    const features = {
      mm_hashes: { image: ['cat', 'dog'], audio: ['bark'], video: ['lost'] },
      mm_placeholders: { image: [{ offset: 40, length: 8 }, { offset: 4, length: 8 }], audio: [{ offset: 20, length: 2 }], video: [{}] },
    };
    expect(mediaOf(features)).toEqual([{ hash: 'dog', offset: 4, length: 8 }, { hash: 'bark', offset: 20, length: 2 }, { hash: 'cat', offset: 40, length: 8 }]);
    expect([mediaOf(null), mediaOf({ mm_hashes: { image: 'x' } })]).toEqual([[], []]);
  });

  it('names media in every block they reach into, by the offset from that block', () => {
    expect(mediaByBlock([{ hash: 'a', offset: 14, length: 20 }, { hash: 'b', offset: 34, length: 1 }], 16)).toEqual([[['a', 14]], [['a', -2]], [['a', -18], ['b', 2]]]);
    // It ends with the block.
    expect(mediaByBlock([{ hash: 'a', offset: 0, length: 16 }], 16)).toEqual([[['a', 0]]]);
    expect(mediaByBlock([{ hash: 'a', offset: 32, length: 1 }], 16)).toEqual([undefined, undefined, [['a', 0]]]);
    expect([mediaByBlock([], 16), mediaByBlock([{ hash: 'a', offset: 0, length: 1 }], 0)]).toEqual([undefined, undefined]);
  });
});
