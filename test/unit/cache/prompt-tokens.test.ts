import { describe, expect, it } from 'vitest';
import { EngineCall } from '#engine/cache/engine-call.ts';
import { promptSource } from '#engine/cache/prompt-source.ts';
import { promptTokens, type PromptAnswer } from '#engine/cache/prompt-tokens.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import type { RecordedApi } from '#shared/vocabulary.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';
import { closers, engineNamed, type Handle } from './fake-engine.ts';

const RENDER = '/v1/chat/completions/render';
const ok = (value: unknown): { readonly text: string } => ({ text: JSON.stringify(value) });
const missing = { status: 404, text: '{"detail":"Not Found"}' };
const CHAT = { model: 'm', messages: [{ role: 'user', content: 'hi' }], tools: [{ type: 'function' }], chat_template_kwargs: { enable_thinking: true }, temperature: 0.5 };
const PICTURE = { ...CHAT, messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] };

function calls(timeoutMs = WAIT_LIMIT_MS): EngineCall {
  const call = new EngineCall({ timeoutMs });
  closers.unshift(() => call.close());
  return call;
}

function ask(api: RecordedApi, body: object, instances: readonly Instance[], call = calls()): Promise<PromptAnswer> {
  return promptTokens(promptSource({ api }, Buffer.from(JSON.stringify(body))), { call, instances, authorization: undefined });
}

describe('promptTokens', () => {
  it('renders chat with the very body of the client, and takes the media with it', async () => {
    const seen: unknown[] = [];
    const p0 = await engineNamed('P0', (json) => {
      seen.push(json);
      return ok({ token_ids: [1, 2, 3], features: { mm_hashes: { image: ['cat'] }, mm_placeholders: { image: [{ offset: 1, length: 2 }] } } });
    });
    expect(await ask('chat', PICTURE, [p0])).toEqual({ ok: true, prompt: { tokens: Uint32Array.of(1, 2, 3), from: 'render', media: [{ hash: 'cat', offset: 1, length: 2 }] } });
    expect(seen).toEqual([PICTURE]);
  });

  it('does not read the tensors of media, however many bytes they have', async () => {
    const rendered = { token_ids: [1, 2, 3], features: { mm_hashes: { image: ['"kwargs_data"'] }, mm_placeholders: { image: [{ offset: 1, length: 2 }] }, kwargs_data: { image: ['x'.repeat(2_000_000)] } }, model: 'm' };
    const p0 = await engineNamed('P0', () => ok(rendered));
    const call = new EngineCall({ timeoutMs: WAIT_LIMIT_MS, maxAnswerBytes: 100_000 });
    closers.unshift(() => call.close());
    expect(await ask('chat', PICTURE, [p0], call)).toEqual({ ok: true, prompt: { tokens: Uint32Array.of(1, 2, 3), from: 'render', media: [{ hash: '"kwargs_data"', offset: 1, length: 2 }] } });
  });

  it('falls back to /tokenize with all that the template sees, and remembers who has no render', async () => {
    const asked: string[] = [];
    const seen: unknown[] = [];
    const handle: Handle = (json, path) => {
      if (path === RENDER) return missing;
      seen.push(json);
      return ok({ count: 4, tokens: [1, 2, 3, 4] });
    };
    const p0 = await engineNamed('P0', handle, asked);
    const call = calls();
    const answer = await ask('chat', { ...CHAT, truncate_prompt_tokens: 2 }, [p0], call);
    expect(answer).toEqual({ ok: true, prompt: { tokens: Uint32Array.of(3, 4), from: 'tokenize', media: [] } });
    const { temperature: _, ...template } = CHAT;
    expect(seen).toEqual([template]);
    await ask('chat', CHAT, [p0], call);
    expect(asked).toEqual([`P0 ${RENDER}`, 'P0 /tokenize', 'P0 /tokenize']);
  });

  it('does not take /tokenize for media, whose keys it does not tell', async () => {
    const p0 = await engineNamed('P0', (_, path) => (path === RENDER ? missing : ok({ tokens: [1] })));
    expect(await ask('chat', PICTURE, [p0])).toEqual({ ok: false, reason: expect.stringMatching(/^the prompt has media.*P0 has no \/v1\/chat\/completions\/render \(404\)$/) });
  });

  it('asks another instance when one fails, but not when one refuses', async () => {
    const asked: string[] = [];
    const broken = await engineNamed('P0', () => ({ status: 500, text: 'oops' }), asked);
    const refusing = await engineNamed('P1', () => ({ status: 400, text: 'too long' }), asked);
    const fine = await engineNamed('P2', () => ok({ tokens: [7] }), asked);
    expect(await ask('completions', { prompt: 'x' }, [broken, fine])).toMatchObject({ ok: true, prompt: { from: 'tokenize' } });
    expect(await ask('completions', { prompt: 'x' }, [refusing, fine])).toEqual({ ok: false, reason: '/tokenize on P1 answered 400: too long' });
    expect(asked).toEqual(['P0 /tokenize', 'P2 /tokenize', 'P1 /tokenize']);
  });

  it('says why there are none: nobody to ask, no answer in time, another shape', async () => {
    expect(await ask('completions', { prompt: 'x' }, [])).toEqual({ ok: false, reason: 'no instance of the model is up' });
    const silent = await engineNamed('P0', () => new Promise(() => undefined));
    expect(await ask('completions', { prompt: 'x' }, [silent], calls(100))).toEqual({ ok: false, reason: '/tokenize on P0: no answer within 0.1 s' });
    const odd = await engineNamed('P1', () => ok({ tokens: ['a'] }));
    expect(await ask('completions', { prompt: 'x' }, [odd])).toEqual({ ok: false, reason: '/tokenize on P1 answered no tokens' });
  });

  it('needs nobody for ids that the client sent', async () => {
    expect(await ask('generate', { token_ids: [5, 6] }, [])).toEqual({ ok: true, prompt: { tokens: Uint32Array.of(5, 6), from: 'request', media: [] } });
  });
});
