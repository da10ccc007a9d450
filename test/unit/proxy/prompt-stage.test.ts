import { describe, expect, it } from 'vitest';
import { DegradedRouting } from '#engine/proxy/degraded-routing.ts';
import { findDecodeHolder } from '#engine/proxy/decode-holder.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import type { ClientRequest } from '#engine/proxy/client-request.ts';
import { scanMembers } from '#engine/proxy/json-members.ts';
import type { InstancePrefix } from '#engine/proxy/policies/prefix-lookup.ts';
import { tokenizeBody } from '#engine/proxy/prompt-stage.ts';
import { PromptView } from '#engine/proxy/prompt-view.ts';
import { TokenCache } from '#engine/proxy/token-cache.ts';
import { RoutingTokenizer } from '#engine/proxy/routing-tokenizer.ts';
import type { InstanceId } from '#shared/ids.ts';

function request(api: ClientRequest['api'], text: string): ClientRequest {
  const body = Buffer.from(text);
  return { api, requestId: 'r', headers: {}, body, json: JSON.parse(text) as Record<string, unknown>, members: scanMembers(body) ?? [], isStream: false };
}

describe('the body of /tokenize', () => {
  it('has the members that decide about tokens, as the client spelled them', () => {
    const chat = '{ "stream": true, "messages" : [{"role":"user","content":"h\\u00e9"}], "max_tokens":5, "tools":[{"n":1.0}], "model":"m", "chat_template_kwargs": {"x":12345678901234567890} }';
    expect(tokenizeBody(request('chat', chat))?.toString()).toBe(
      '{"messages" : [{"role":"user","content":"h\\u00e9"}],"tools":[{"n":1.0}],"model":"m","chat_template_kwargs": {"x":12345678901234567890}}',
    );
    expect(tokenizeBody(request('completions', '{"prompt":"p","echo":true,"add_special_tokens":false}'))?.toString()).toBe('{"prompt":"p","add_special_tokens":false}');
  });

  it('does not exist without a prompt, and for token ids', () => {
    expect(tokenizeBody(request('chat', '{"model":"m"}'))).toBeUndefined();
    expect(tokenizeBody(request('generate', '{"token_ids":[1]}'))).toBeUndefined();
  });
});

describe('asking for tokens', () => {
  it('pauses after three failures in a row, longer each time, until one call succeeds', () => {
    let now = 0;
    const tokenizer = new RoutingTokenizer(() => now);
    tokenizer.failed('late');
    tokenizer.failed('late');
    tokenizer.succeeded();
    tokenizer.failed('late');
    tokenizer.failed('late');
    expect(tokenizer.reasonAgainst).toBeUndefined();
    tokenizer.failed('too late');
    expect(tokenizer.reasonAgainst).toBe('tokenizing is paused for 1 s after failures, the last: too late');
    now = 1000;
    expect(tokenizer.reasonAgainst).toBeUndefined();
    tokenizer.failed('again');
    expect(tokenizer.reasonAgainst).toBe('tokenizing is paused for 2 s after failures, the last: again');
    for (let round = 0; round < 20; round += 1) {
      now += 60_000;
      expect(tokenizer.reasonAgainst).toBeUndefined();
      tokenizer.failed('again');
    }
    expect(tokenizer.reasonAgainst).toContain('60 s');
    now += 60_000;
    tokenizer.succeeded();
    tokenizer.failed('late');
    expect(tokenizer.reasonAgainst).toBeUndefined();
  });
});

describe('tokens had a moment ago', () => {
  it('are those of the very same bytes, for half a minute', () => {
    let now = 0;
    const cache = new TokenCache(() => now);
    const [body, tokens] = [Buffer.from('{"prompt":"p"}'), Uint32Array.of(1, 2)];
    const key = cache.keyOf(body) ?? '';
    expect(cache.get(key)).toBeUndefined();
    cache.set(key, tokens);
    expect(cache.get(cache.keyOf(Buffer.from('{"prompt":"p"}')) ?? '')).toBe(tokens);
    expect(cache.get(cache.keyOf(Buffer.from('{"prompt":"p "}')) ?? '')).toBeUndefined();
    now = 30_000;
    expect(cache.get(key)).toBeUndefined();
    expect(cache.bytes).toBe(0);
  });

  it('are few: the oldest go, and large bodies are not kept', () => {
    const cache = new TokenCache(() => 0);
    for (let prompt = 0; prompt < 600; prompt += 1) cache.set(String(prompt), new Uint32Array(100));
    expect([cache.get('87'), cache.get('88')?.length, cache.bytes]).toEqual([undefined, 100, 512 * 400]);
    cache.set('large', new Uint32Array(2_050_000));
    expect(cache.bytes).toBe(8_200_000 + 400 * Math.floor((8 * 1024 * 1024 - 8_200_000) / 400));
    expect(cache.keyOf(Buffer.alloc(64 * 1024 + 1))).toBeUndefined();
  });
});

describe('a decode instance that can do without prefill', () => {
  const instances = [4, 1, 1].map((inFlight, index) => ({ id: `d${index}`, name: `D${index}`, inFlight, dpSize: 1 }) as unknown as Instance);
  const entry = (id: string, matchedTokens: number, confidence = 1): InstancePrefix => ({ instance: id as InstanceId, matchedTokens, matchedBlocks: matchedTokens / 16, confidence });
  const prompt = (entries: readonly InstancePrefix[]): PromptView =>
    new PromptView(request('completions', `{"prompt":[${Array.from({ length: 100 }, (_, index) => index).join(',')}]}`), { holdsAny: () => true, prefix: () => entries });

  it('holds all but fewer tokens than the limit, with good confidence', () => {
    expect(findDecodeHolder(instances, prompt([entry('d0', 96)]), 5)).toMatchObject({ instance: { name: 'D0' }, matchedTokens: 96, promptTokens: 100, limit: 5 });
    expect(findDecodeHolder(instances, prompt([entry('d0', 96)]), 4)).toBeUndefined();
    expect(findDecodeHolder(instances, prompt([entry('d0', 96, 0.79)]), 50)).toBeUndefined();
    expect(findDecodeHolder(instances, prompt([entry('p0', 96)]), 50)).toBeUndefined();
    expect(findDecodeHolder(instances, new PromptView(request('completions', '{"prompt":"text"}'), { holdsAny: () => true, prefix: () => [entry('d0', 96)] }), 50)).toBeUndefined();
  });

  it('is the least busy one, then the one that holds most', () => {
    expect(findDecodeHolder(instances, prompt([entry('d0', 96), entry('d1', 80), entry('d2', 64)]), 50)?.instance.name).toBe('D1');
    expect(findDecodeHolder(instances, prompt([entry('d1', 64), entry('d2', 80)]), 50)?.instance.name).toBe('D2');
  });
});

describe('a policy that falls back to load', () => {
  it('becomes a finding, at most once a minute', () => {
    let now = 0;
    const messages: string[] = [];
    const degraded = new DegradedRouting(({ code, message }) => messages.push(`${code}: ${message}`), () => now);
    degraded.seen('balanced by load: a');
    now = 59_999;
    degraded.seen('balanced by load: b');
    now = 60_000;
    degraded.seen('balanced by load: c');
    expect(messages).toEqual(['routing_degraded: At least one request was balanced by load: a.', 'routing_degraded: At least one request was balanced by load: c.']);
  });
});
