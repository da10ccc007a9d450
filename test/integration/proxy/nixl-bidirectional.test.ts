/** Conversations over scripted upstreams: what each leg gets, what is reused, what is refused, what the client sees. */
import { expect, test } from 'vitest';
import type { Verdict } from '#shared/findings.ts';
import type { ProtocolOptions } from '#shared/protocol.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { NO_LINTER, type Linter } from '#engine/proxy/lint/linter.ts';
import { post, startHarness, until, withRanks, type Harness } from './harness.ts';
import { closedPort, events, json, startUpstream, type ReceivedRequest, type Script, type ScriptedUpstream } from './scripted-upstream.ts';

const PREFILL_PARAMS = '{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2]],"remote_engine_id":"p","remote_request_id":"r","remote_host":"10.0.0.1","remote_port":5600,"big":12345678901234567890}';
const prefillOk = (usage: object = { prompt_tokens: 100, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 90 } }): Script =>
  json(`{"id":"x","choices":[{"index":0,"finish_reason":"length"}],"usage":${JSON.stringify(usage)},"kv_transfer_params":${PREFILL_PARAMS}}`);

/** Params of the decode instance, numbered so that turns can be told apart. */
const heldParams = (turn: number, extra = ''): string =>
  `{"do_remote_prefill":false,"do_remote_decode":true,"remote_block_ids":[[${turn},9007199254740993]],"remote_engine_id":"d_dp0","remote_request_id":"t${turn}","remote_host":"10.0.0.2","remote_port":5600,"tp_size":1,"remote_num_tokens":50,"remote_blocks_expiry_time":123.50${extra}}`;

const chatAnswer = (turn: number, text: string, { message = '', choice = '' } = {}): string =>
  `{"id":"chatcmpl-${turn}","object":"chat.completion","created":${turn},"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":${JSON.stringify(text)},"tool_calls":[]${message}},"logprobs":null,"finish_reason":"stop","stop_reason":null${choice}}],"usage":{"prompt_tokens":50,"total_tokens":53,"completion_tokens":3},"kv_transfer_params":${heldParams(turn)}}`;

interface Case extends AsyncDisposable {
  readonly harness: Harness;
  readonly prefill: ScriptedUpstream;
  readonly decodes: readonly ScriptedUpstream[];
  /** Sends a chat turn; the answer's text. */
  chat(body: object, headers?: Record<string, string>): Promise<string>;
  /** kv_transfer_params as the n-th prefill leg carried them, raw. */
  sentToPrefill(index: number): string;
}

interface CaseOptions {
  readonly prefill?: Script;
  readonly decode?: Script;
  readonly decodes?: number;
  readonly protocol?: Partial<ProtocolOptions>;
  readonly linter?: Linter;
}

async function startCase({ prefill = prefillOk(), decode, decodes: count = 1, protocol = {}, linter = NO_LINTER }: CaseOptions = {}): Promise<Case> {
  const p = await startUpstream(prefill);
  let turn = 0;
  const answer: Script = (res, request, index) => json(chatAnswer(++turn, `answer ${turn}`))(res, request, index);
  const decodes = await Promise.all(Array.from({ length: count }, () => startUpstream(decode ?? answer)));
  const harness = await startHarness({ prefill: [p.origin], decode: decodes.map(({ origin }) => origin), connector: 'nixl-bidirectional', protocol, linter });
  return {
    harness,
    prefill: p,
    decodes,
    async chat(body, headers) {
      const response = await post(`${harness.origin}/v1/chat/completions`, { model: 'm', ...body }, headers);
      const text = await response.text();
      // What is kept of a turn is known after its last byte.
      await until(() => harness.tracer.last.state);
      return text;
    },
    sentToPrefill: (index) => String(harness.tracer.requests.flatMap(({ legs }) => legs).filter(({ init }) => init.kind === 'prefill')[index]?.init.kvTransferParams),
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      await Promise.all([p, ...decodes].map((upstream) => upstream.close()));
    },
  };
}

const user = (content: string) => ({ role: 'user', content });
const assistant = (content: unknown, extra: object = {}) => ({ role: 'assistant', content, ...extra });
const codes = ({ harness }: Case): string[] => harness.tracer.last.verdicts.map(({ code }) => code);
const fact = ({ harness }: Case, title: string): unknown => harness.proxy.connectorStatus().facts.find((one) => one.title === title)?.value;
const NULLS = '"remote_block_ids":null';

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
