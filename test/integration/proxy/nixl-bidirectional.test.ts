/** Conversations over scripted upstreams: what each leg gets, what is kept and reused, what the client sees. */
import { expect, test } from 'vitest';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { PREFILL_PARAMS, NULLS, assistant, chatAnswer, codes, fact, heldParams, startCase, user } from './conversation-case.ts';
import { post, until, withRanks } from './harness.ts';
import { closedPort, events, json, startUpstream, type ReceivedRequest, type Script } from './scripted-upstream.ts';

test('the decode answer\'s params go to the next turn\'s prefill as the bytes they were, once', async () => {
  await using c = await startCase();
  const first = await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  expect(JSON.parse(first)).toMatchObject({ choices: [{ message: { content: 'answer 1' } }], kv_transfer_params: { remote_request_id: 't1' } });
  const second = [user('hi'), assistant('answer 1'), user('more')];
  await c.chat({ messages: second, conversation_id: 'c1' });
  expect(c.sentToPrefill(0)).toContain(NULLS);
  expect(c.sentToPrefill(1)).toBe(heldParams(1));
  expect(c.prefill.received[1]?.body.toString()).toContain(`"kv_transfer_params":${heldParams(1)}`);
  // The prefill's own params still reach decode, untouched.
  expect(c.decodes[0]?.received[1]?.body.toString()).toContain(`"kv_transfer_params":${PREFILL_PARAMS}`);
  // The same turn again: what turn 1 left was used; what turn 2 left holds an answer that this prompt lacks.
  await c.chat({ messages: second, conversation_id: 'c1' });
  expect(c.sentToPrefill(2)).toContain(NULLS);
  expect(codes(c)).toEqual(['conversation_edited']);
  expect(c.harness.tracer.last.verdicts[0]?.message).toContain('message 3');
  expect([fact(c, 'Turns kept'), fact(c, 'Turns reused'), fact(c, 'Reuse refused')]).toEqual([3, 1, 1]);
});

test('params of a prefill leg that never reached its instance are used on another one, and are no reuse to the linter', async () => {
  const prefill: Script = (res, request, index) => json(`{"id":"x","choices":[{"index":0}],"kv_transfer_params":${PREFILL_PARAMS.replace('"r"', `"r${index}"`)}}`)(res, request, index);
  await using c = await startCase({ linter: createLinter(), prefill });
  c.harness.scheduler.add('prefill', `http://127.0.0.1:${await closedPort()}`);
  const messages: object[] = [user('hi')];
  // The policy takes turns: the later two meet the closed port first.
  for (let turn = 1; turn <= 3; turn++) {
    await c.chat({ messages, conversation_id: 'c1' });
    messages.push(assistant(`answer ${turn}`), user('more'));
  }
  const { requests } = c.harness.tracer;
  expect(requests.map(({ retries }) => retries)).toEqual([0, 1, 1]);
  expect(requests.flatMap(({ verdicts }) => verdicts.map(({ code }) => code))).not.toContain('reference_reused');
  expect(c.prefill.received.map(({ body }) => /"remote_request_id":"t\d"/.exec(body.toString())?.[0])).toEqual([undefined, '"remote_request_id":"t1"', '"remote_request_id":"t2"']);
});

test('the rank of the last turn is kept, unless the client pins one', async () => {
  await using c = await startCase({ decodes: 0 });
  await using decode = await startUpstream(json(chatAnswer(1, 'one')));
  c.harness.scheduler.add('decode', decode.origin, withRanks(4));
  for (const headers of [{}, {}, { 'x-data-parallel-rank': '3' }] as const) await c.chat({ messages: [user('hi')], conversation_id: 'c1' }, headers);
  expect(decode.received.map(({ headers }) => headers['x-data-parallel-rank'])).toEqual(['0', '0', '3']);
});

test('the private field reaches no leg, and is recorded as removed', async () => {
  await using c = await startCase();
  await c.chat({ conversation_id: 'c1', messages: [user('hi')], max_tokens: 4 });
  for (const { json } of [...c.prefill.received, ...(c.decodes[0]?.received ?? [])]) expect(json).not.toHaveProperty('conversation_id');
  expect(c.harness.tracer.last.legs.map(({ init }) => init.rewrites[0])).toEqual([
    { field: 'conversation_id', from: '"c1"' },
    { field: 'conversation_id', from: '"c1"' },
  ]);
});

test.each(['x-conversation-id', 'x-session-id'])('the header %s names a conversation, and the body wins', async (header) => {
  await using c = await startCase();
  await c.chat({ messages: [user('hi')] }, { [header]: 'h' });
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'other' }, { [header]: 'h' });
  expect(c.sentToPrefill(1)).toContain(NULLS);
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')] }, { [header]: 'h' });
  expect(c.sentToPrefill(2)).toBe(heldParams(1));
});

test.each([[{ id: 1 }], [''], ['x'.repeat(257)], [true]])('conversation_id %j is refused with 400', async (conversation_id) => {
  await using c = await startCase();
  expect(JSON.parse(await c.chat({ messages: [user('hi')], conversation_id }))).toMatchObject({ pdscope: { code: 'bad_conversation_id' } });
  expect(c.prefill.received).toHaveLength(0);
});

test('without a conversation id nothing is kept', async () => {
  await using c = await startCase();
  await c.chat({ messages: [user('hi')] });
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: null });
  expect(c.sentToPrefill(1)).toContain(NULLS);
  expect(c.harness.proxy.connectorStatus().tables[0]?.total).toBe(0);
});

test('two threads under one id do not take each other\'s blocks', async () => {
  await using c = await startCase();
  await c.chat({ messages: [user('a')], conversation_id: 'c1' });
  await c.chat({ messages: [user('b')], conversation_id: 'c1' });
  await c.chat({ messages: [user('a'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(c.sentToPrefill(2)).toBe(heldParams(1));
  await c.chat({ messages: [user('b'), assistant('answer 2'), user('x')], conversation_id: 'c1' });
  expect(c.sentToPrefill(3)).toBe(heldParams(2));
});

test('of two concurrent requests one reuses', async () => {
  await using c = await startCase();
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  const next = { model: 'm', messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' };
  await Promise.all([1, 2, 3].map(async () => (await post(`${c.harness.origin}/v1/chat/completions`, next)).text()));
  expect([1, 2, 3].filter((index) => c.sentToPrefill(index) === heldParams(1))).toHaveLength(1);
});

test('the decode instance of the last turn is preferred', async () => {
  await using c = await startCase({ decodes: 3 });
  let messages: object[] = [user('hi')];
  for (let turn = 0; turn < 4; turn++) {
    const answer = JSON.parse(await c.chat({ messages, conversation_id: 'c1' })) as { choices: [{ message: { content: string } }] };
    messages = [...messages, assistant(answer.choices[0].message.content), user('more')];
  }
  expect(c.decodes.map(({ received }) => received.length).sort((a, b) => a - b)).toEqual([0, 0, 4]);
  expect(fact(c, 'Turns reused')).toBe(3);
});

test('status: table, capacity, notices', async () => {
  await using c = await startCase({ protocol: { conversations: 2 } });
  for (const id of ['c1', 'c2', 'c3']) await c.chat({ messages: [user('hi')], conversation_id: id });
  const { tables, notices } = c.harness.proxy.connectorStatus();
  expect(tables[0]).toMatchObject({ total: 2, capacity: 2, evicted: 1, expired: 0 });
  expect(tables[0]?.rows.map((row) => row[0])).toEqual(['c3', 'c2']);
  expect(tables[0]?.rows[0]).toEqual(['c3', { instance: 'd0', name: 'D0' }, 1, 50, 0, 450, 'first turn; kept for the next turn']);
  expect(notices.map(({ severity }) => severity)).toEqual(['info']);
  expect(notices[0]?.message).toContain('not in streams');
});

test('an engine without bidirectional_kv_xfer: nothing is kept, and the status says what to set', async () => {
  await using c = await startCase({ decode: json('{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"kv_transfer_params":null}') });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  expect(fact(c, 'Turns kept')).toBe(0);
  expect(c.harness.proxy.connectorStatus().notices.map(({ message }) => message).join()).toContain('bidirectional_kv_xfer');
});

test('a loopback host of the decode instance is corrected for prefill, and reported', async () => {
  await using c = await startCase({ decode: json(chatAnswer(1, 'answer 1').replace('"10.0.0.2"', '"0.0.0.0"')) });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1' });
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1' });
  expect(c.sentToPrefill(1)).toBe(heldParams(1).replace('10.0.0.2', '127.0.0.1'));
  expect(c.harness.tracer.last.verdicts).toMatchObject([{ code: 'remote_host_corrected', hop: 'decode->proxy', instance: 'd0' }]);
});

const completion = (text: string, extra: object = {}): Script => json({ id: 'c', object: 'text_completion', created: 1, model: 'm', choices: [{ index: 0, text, finish_reason: 'length', stop_reason: null, ...extra }], kv_transfer_params: JSON.parse(heldParams(1)) as object });

test.each<[string, unknown, unknown, object, boolean]>([
  ['text that goes on', 'one', 'one two three', {}, true],
  ['text that may merge with the last token', 'one', 'one twofold', {}, false],
  ['text with another answer', 'one', 'one 2 three', {}, false],
  ['another text', 'one', 'ONE two three', {}, false],
  ['tokens, answered with theirs', [1, 2], [1, 2, 3, 4, 5], { token_ids: [3, 4] }, true],
  ['tokens, answered without theirs', [1, 2], [1, 2, 3, 4, 5], {}, false],
  ['other tokens', [1, 2], [1, 2, 3, 5, 5], { token_ids: [3, 4] }, false],
])('completions: %s', async (_what, prompt, next, extra, isReused) => {
  await using c = await startCase({ decode: completion(' two', extra) });
  for (const one of [prompt, next]) {
    await (await post(`${c.harness.origin}/v1/completions`, { model: 'm', prompt: one, conversation_id: 'c1', return_token_ids: true })).text();
    await until(() => c.harness.tracer.last.state);
  }
  expect(c.sentToPrefill(1).includes('"t1"')).toBe(isReused);
  expect(codes(c)).toHaveLength(isReused ? 0 : 1);
});

const chunk = (choice: object, extra: object = {}): string => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, ...choice }], ...extra })}\n\n`;
const STREAM = [chunk({ delta: { role: 'assistant', content: '' } }), chunk({ delta: { content: 'answer ' } }), chunk({ delta: { content: '1' }, finish_reason: 'stop' })];

test('streams of today\'s engines are passed on, keep nothing, and the status says so', async () => {
  await using c = await startCase({ decode: events([...STREAM, 'data: [DONE]\n\n']) });
  expect(await c.chat({ messages: [user('hi')], conversation_id: 'c1', stream: true })).toBe([...STREAM, 'data: [DONE]\n\n'].join(''));
  expect(fact(c, 'Turns kept')).toBe(0);
  expect(c.harness.proxy.connectorStatus().notices).toMatchObject([{ severity: 'warning', message: expect.stringContaining('re-emitted streams') }]);
});

test('streams that end with params are used', async () => {
  const last = chunk({ delta: {}, finish_reason: 'stop' }).replace(/\}\n\n$/, `,"kv_transfer_params":${heldParams(1)}}\n\n`);
  await using c = await startCase({ decode: events([STREAM[0] ?? '', STREAM[1] ?? '', chunk({ delta: { content: '1' } }), last, 'data: [DONE]\n\n']) });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1', stream: true });
  await c.chat({ messages: [user('hi'), assistant('answer 1'), user('x')], conversation_id: 'c1', stream: true });
  expect(c.sentToPrefill(1)).toBe(heldParams(1));
  expect(c.harness.proxy.connectorStatus().notices).toEqual([]);
});

test('a stream too long to be kept whole is an unknown answer', async () => {
  const long = chunk({ delta: { content: 'x'.repeat(200_000) } });
  const last = chunk({ delta: {}, finish_reason: 'stop' }).replace(/\}\n\n$/, `,"kv_transfer_params":${heldParams(1)}}\n\n`);
  await using c = await startCase({ decode: events([long, 'data: {"choices":[]}\n\n'.repeat(10_000), last, 'data: [DONE]\n\n']) });
  await c.chat({ messages: [user('hi')], conversation_id: 'c1', stream: true });
  await c.chat({ messages: [user('hi'), assistant('x'.repeat(200_000)), user('x')], conversation_id: 'c1', stream: true });
  expect(c.sentToPrefill(1)).toContain(NULLS);
  expect(codes(c)).toEqual(['conversation_unknown_answer']);
});

test('n > 1 and several prompts run without prefill, without the private field', async () => {
  await using c = await startCase();
  await c.chat({ messages: [user('hi')], conversation_id: 'c1', n: 2 });
  const received: readonly ReceivedRequest[] = c.decodes[0]?.received ?? [];
  expect(c.prefill.received).toHaveLength(0);
  expect(received[0]?.json).toEqual({ model: 'm', messages: [user('hi')], n: 2 });
  expect(codes(c)).toEqual(['handoff_not_possible']);
});
