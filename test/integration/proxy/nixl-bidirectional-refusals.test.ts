/** Conversations over scripted upstreams: turns that do not reuse the blocks of the last one, or lose them on the way. */
import { expect, test } from 'vitest';
import type { Verdict } from '#shared/findings.ts';
import type { Linter } from '#engine/proxy/lint/linter.ts';
import { NULLS, assistant, chatAnswer, codes, fact, heldParams, prefillOk, startCase, user, type Case } from './conversation-case.ts';
import { json, type Script } from './scripted-upstream.ts';

const REFUSED: readonly (readonly [string, object, string, string])[] = [
  ['an edited message', { messages: [user('hi!'), assistant('answer 1'), user('x')] }, 'conversation_edited', 'message 0'],
  ['an edited answer', { messages: [user('hi'), assistant('answer 1.'), user('x')] }, 'conversation_edited', 'message 1'],
  ['a dropped answer', { messages: [user('hi'), user('x')] }, 'conversation_edited', 'message 1'],
  ['an answer of another role', { messages: [user('hi'), user('answer 1')] }, 'conversation_edited', 'message 1'],
  ['invented tool calls', { messages: [user('hi'), assistant('answer 1', { tool_calls: [{ id: 'x' }] }), user('x')] }, 'conversation_edited', 'tool_calls'],
  ['invented reasoning', { messages: [user('hi'), assistant('answer 1', { reasoning: 'so' }), user('x')] }, 'conversation_edited', 'reasoning'],
  ['other tools', { messages: [user('hi'), assistant('answer 1'), user('x')], tools: [{ type: 'function', function: { name: 'f' } }] }, 'conversation_settings_changed', 'tools'],
  ['another salt', { messages: [user('hi'), assistant('answer 1'), user('x')], cache_salt: 's' }, 'conversation_settings_changed', 'cache_salt'],
  ['another model', { messages: [user('hi'), assistant('answer 1'), user('x')], model: 'lora' }, 'conversation_settings_changed', 'model'],
  ['another template', { messages: [user('hi'), assistant('answer 1'), user('x')], chat_template_kwargs: { enable_thinking: true } }, 'conversation_settings_changed', 'chat_template_kwargs'],
];

test.each(REFUSED)('%s is not reused, and said so', async (_what, body, code, where) => {
  await using c = await startCase();
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  await c.chat({ ...body, conversation_id: 'c1' });
  expect(c.sentToPrefill(1)).toContain(NULLS);
  expect(codes(c)).toEqual([code]);
  expect(c.harness.tracer.last.verdicts[0]?.message).toContain(where);
  // The real continuation still can: the thread was not touched.
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(c.sentToPrefill(2)).toBe(heldParams(1));
});

test.each<[string, object]>([
  ['sampling parameters', { temperature: 0.1, max_tokens: 3, seed: 4, stop: ['x'] }],
  ['the answer as a text part, with empty members', { messages: [user('hi'), assistant([{ type: 'text', text: 'answer 1' }], { tool_calls: [], refusal: null, name: '' }), user('x')] }],
])('%s may differ', async (_what, body) => {
  await using c = await startCase();
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1', ...body });
  expect(c.sentToPrefill(1)).toBe(heldParams(1));
  expect(codes(c)).toEqual([]);
});

test.each([
  ['reasoning', { message: ',"reasoning":"hm"' }, 'reasoning_stripped'],
  ['tool calls', { message: ',"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]' }, 'tool_calls_rerendered'],
  ['a stop string', { choice: ',"stop_reason":"END"' }, 'conversation_unknown_answer'],
] as const)('an answer with %s is not kept, and the next turn says why', async (_what, extra, code) => {
  await using c = await startCase({ decode: json(chatAnswer(1, 'answer 1', extra)) });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(c.sentToPrefill(1)).toContain(NULLS);
  expect(codes(c)).toEqual([code]);
});

test('prefill that fails with the blocks runs again without, on the only instance there is', async () => {
  const prefill: Script = (res, request, index) =>
    request.body.includes('"do_remote_decode":true,"remote_block_ids":[[') ? json({ error: { message: 'KV load failed', code: 500 } }, 500)(res, request, index) : prefillOk()(res, request, index);
  await using c = await startCase({ prefill });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  const answer = await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(JSON.parse(answer)).toMatchObject({ choices: [{ message: { content: 'answer 2' } }] });
  expect(c.sentToPrefill(1)).toBe(heldParams(1));
  expect(c.sentToPrefill(2)).toContain(NULLS);
  expect(codes(c)).toEqual(['reuse_declined']);
  expect(c.harness.tracer.last.verdicts[0]?.message).toContain('KV load failed');
  expect([fact(c, 'Turns reused'), fact(c, 'Reuse declined by prefill')]).toEqual([0, 1]);
});

test('blocks that the linter holds back are done without', async () => {
  const held: Verdict = { code: 'x', severity: 'error', title: 't', message: 'm', nextStep: 'n', effect: 'hangs' };
  const linter: Linter = { sending: (_context, leg) => (leg.kind === 'prefill' && String(leg.kvTransferParams).includes('"t1"') ? [held] : []), answered: () => [] };
  await using c = await startCase({ linter });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  const answer = await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(JSON.parse(answer)).toMatchObject({ choices: [{ message: { content: 'answer 2' } }] });
  expect(c.prefill.received.map(({ body }) => body.includes(NULLS))).toEqual([true, true]);
  expect(codes(c)).toEqual(['x', 'reuse_declined']);
});

test('a refusal of the request itself is not repeated', async () => {
  await using c = await startCase();
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  c.prefill.script = json({ error: { message: 'too long', code: 400 } }, 400);
  expect(JSON.parse(await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' }))).toMatchObject({ error: { message: 'too long' } });
  expect(c.prefill.received).toHaveLength(2);
});

test('a prompt shorter than what was reused runs again without, past the cache of what was misread', async () => {
  await using c = await startCase();
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  c.prefill.script = prefillOk({ prompt_tokens: 49 });
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(c.sentToPrefill(2)).toContain(NULLS);
  expect(codes(c)).toEqual(['reuse_beyond_prompt']);
  expect(c.prefill.received.map(({ json }) => typeof json['cache_salt'])).toEqual(['undefined', 'undefined', 'string']);
  expect(c.decodes[0]?.received[1]?.json).not.toHaveProperty('cache_salt');
});

test('blocks that prefill did not read are said to be unused', async () => {
  await using c = await startCase({ decode: json(chatAnswer(1, 'answer 1').replace('"remote_num_tokens":50', '"remote_num_tokens":500')) });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  c.prefill.script = prefillOk({ prompt_tokens: 600, prompt_tokens_details: { cached_tokens: 0 } });
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(codes(c)).toEqual(['reuse_not_used']);
  expect(c.prefill.received).toHaveLength(2);
});

test('blocks are kept when prefill could not be reached', async () => {
  await using c = await startCase();
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  const [instance] = c.harness.scheduler.instances;
  if (instance === undefined) throw new Error('no prefill instance');
  c.harness.scheduler.excluded.set(instance, 'draining');
  const next = { messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' };
  expect(JSON.parse(await c.chat(next))).toMatchObject({ pdscope: { code: 'no_instance' } });
  c.harness.scheduler.excluded.clear();
  await c.chat(next);
  expect(c.sentToPrefill(1)).toBe(heldParams(1));
});

test.each([
  ['left', (c: Case, id: 'd0') => c.harness.scheduler.leave(id as never, 'test')],
  ['down', (c: Case, id: 'd0') => change(c, id, (instance) => (instance.state = 'down'))],
  ['another engine id', (c: Case, id: 'd0') => [1, 2].forEach((n) => change(c, id, (instance) => (instance.transfer = { engineId: `e${n}` })))],
  ['another version', (c: Case, id: 'd0') => [1, 2].forEach((n) => change(c, id, (instance) => (instance.version = `0.${n}`)))],
] as const)('blocks of an instance are given up: %s', async (_what, happen) => {
  await using c = await startCase({ decodes: 2 });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  expect(fact(c, 'Turns kept')).toBe(1);
  happen(c, 'd0');
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(c.sentToPrefill(1)).toContain(NULLS);
  expect(fact(c, 'Lost with their instance')).toBe(1);
});

function change({ harness: { scheduler } }: Case, id: string, edit: (instance: (typeof scheduler.instances)[number]) => void): void {
  const instance = scheduler.instances.find((one) => one.id === id);
  if (instance === undefined) throw new Error(`no ${id}`);
  edit(instance);
  scheduler.changed(instance);
}

test('an engine id in an answer that is not the last one tells a restart', async () => {
  let engine = 'd';
  let turn = 0;
  await using c = await startCase({ decode: (res, request, index) => json(chatAnswer(++turn, `answer ${turn}`).replace('"d_dp0"', `"${engine}_dp0"`))(res, request, index) });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  await c.chat({ messages: [user('hi')], conversation_id: 'c2' });
  engine = 'new';
  await c.chat({ messages: [user('hi')], conversation_id: 'c3' });
  expect(fact(c, 'Lost with their instance')).toBe(2);
  await c.chat({ messages: [user('hi'), assistant('answer 3'), user('x')], conversation_id: 'c3' });
  expect(c.sentToPrefill(3)).toContain('"t3"');
});

test('a decode leg that fails runs the pair again, without blocks that were taken', async () => {
  await using c = await startCase({ decodes: 2 });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  const [first] = c.decodes;
  if (first === undefined) throw new Error('no decode instance');
  first.script = json({ error: { message: 'boom' } }, 500);
  const answer = await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(JSON.parse(answer)).toMatchObject({ choices: [{ message: { content: 'answer 2' } }] });
  expect([c.sentToPrefill(1), c.sentToPrefill(2).includes(NULLS)]).toEqual([heldParams(1), true]);
  expect(c.harness.proxy.connectorStatus().tables[0]?.rows[0]?.slice(1, 3)).toEqual([{ instance: 'd1', name: 'D1' }, 2]);
});
