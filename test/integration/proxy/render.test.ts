/** Render mode against simulated engines: the same answers as a direct request, and what each instance was asked. */
import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { post, until } from './harness.ts';
import { SIM_MODEL, startSimFleet, type SimFleet } from './sim-fleet.ts';

const MESSAGES = [{ role: 'user' as const, content: 'Tell me about gauges, queues and clocks, please, in any order you like.' }];
const CHAT = { model: SIM_MODEL, messages: MESSAGES, max_tokens: 24, seed: 5 };
const TOOLS = [{ type: 'function' as const, function: { name: 'lookup', description: 'd', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }];
const NAMED = { type: 'function', function: { name: 'lookup' } };

type Json = Readonly<Record<string, unknown>>;

interface Choice {
  readonly index: number;
  readonly text?: string;
  readonly message?: { readonly content: string | null; readonly tool_calls?: readonly Json[]; readonly reasoning?: string | null };
  readonly finish_reason: string | null;
  readonly stop_reason?: unknown;
  readonly logprobs?: unknown;
}

interface Body {
  readonly id: string;
  readonly object: string;
  readonly model: string;
  readonly choices: readonly Choice[];
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number };
}

async function ask(fleet: SimFleet, connector: 'render' | 'nixl', { path, body }: { readonly path: string; readonly body: object }): Promise<Body> {
  await fleet.proxy.setConnector(connector);
  const answer = await post(fleet.origin + path, body, { 'x-request-id': 'req-1' });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Body;
}

/** What a client can see of an answer whichever way it was made. */
function visible({ id, object, model, choices, usage }: Body): object {
  return {
    id,
    object,
    model,
    choices: choices.map(({ index, text, message, finish_reason, logprobs }) => ({
      index,
      text,
      content: message?.content,
      reasoning: message?.reasoning,
      // Their ids are random.
      toolCalls: (message?.tool_calls ?? []).map(({ id: _id, ...call }) => call),
      finish_reason,
      logprobs,
    })),
    usage: { prompt: usage.prompt_tokens, completion: usage.completion_tokens },
  };
}

describe('a whole answer is that of a direct request', () => {
  const rows: readonly (readonly [string, string, object])[] = [
    ['chat', '/v1/chat/completions', CHAT],
    ['chat, several choices', '/v1/chat/completions', { ...CHAT, n: 3 }],
    ['chat, a stop string', '/v1/chat/completions', { ...CHAT, stop: ['a', 'q'] }],
    ['chat, until it ends by itself', '/v1/chat/completions', { ...CHAT, max_tokens: 2000 }],
    ['chat, JSON', '/v1/chat/completions', { ...CHAT, response_format: { type: 'json_object' }, max_tokens: 200 }],
    ['chat, reasoning', '/v1/chat/completions', { ...CHAT, chat_template_kwargs: { enable_thinking: true }, max_tokens: 200 }],
    ['chat, log probabilities', '/v1/chat/completions', { ...CHAT, logprobs: true, top_logprobs: 2 }],
    ['completions', '/v1/completions', { model: SIM_MODEL, prompt: 'Once upon a time', max_tokens: 12, seed: 1 }],
    ['completions of token ids', '/v1/completions', { model: SIM_MODEL, prompt: [300, 301, 302, 303], max_tokens: 12, seed: 1, min_tokens: 5 }],
    ['completions of a list of one', '/v1/completions', { model: SIM_MODEL, prompt: ['Once'], max_tokens: 7, seed: 1, stop: ['e'] }],
  ];
  test.each(rows)('%s', async (_name, path, body) => {
    await using fleet = await startSimFleet(['prefill', 'decode'], 'render');
    const rendered = await ask(fleet, 'render', { path, body });
    const direct = await ask(fleet, 'nixl', { path, body });
    expect(visible(rendered)).toEqual(visible(direct));
  });
});

test('a tool call is told apart by the engine\'s parser, whole and re-emitted as a stream', async () => {
  await using fleet = await startSimFleet(['prefill', 'decode'], 'render');
  const call = { path: '/v1/chat/completions', body: { ...CHAT, tools: TOOLS, tool_choice: NAMED, max_tokens: 200 } };
  const [choice] = (await ask(fleet, 'render', call)).choices;
  expect(choice?.message).toMatchObject({ content: null, tool_calls: [{ type: 'function', function: { name: 'lookup' } }] });
  const [direct] = (await ask(fleet, 'nixl', call)).choices;
  expect(choice?.finish_reason).toBe(direct?.finish_reason);
  const streamed = await stream(fleet, 'render', call);
  const args = (choice?.message?.tool_calls?.[0]?.['function'] as Json | undefined)?.['arguments'];
  expect(streamed).toMatchObject({ texts: [''], finish: [direct?.finish_reason], toolCalls: JSON.stringify(args), isDone: true });
  expect(JSON.parse(String(args))).toMatchObject({ city: expect.any(String) as string });
});

interface Collected {
  readonly texts: readonly string[];
  readonly finish: readonly unknown[];
  readonly usage: unknown;
  readonly toolCalls: string;
  readonly isDone: boolean;
}

function expectCounted(fleet: SimFleet, events: number): void {
  expect(fleet.tracer.last.events).toBe(events);
}

/** Reads a stream as a client does. */
async function stream(fleet: SimFleet, connector: 'render' | 'nixl', { path, body }: { readonly path: string; readonly body: object }): Promise<Collected> {
  await fleet.proxy.setConnector(connector);
  const answer = await post(fleet.origin + path, { ...body, stream: true, stream_options: { include_usage: true } }, { 'x-request-id': 'req-1' });
  expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  const texts: string[] = [];
  const finish: unknown[] = [];
  let usage: { readonly prompt_tokens: number; readonly completion_tokens: number } | undefined;
  let toolCalls = '';
  const payloads = (await answer.text()).split('\n').flatMap((line) => (line.startsWith('data: ') ? [line.slice(6)] : []));
  for (const payload of payloads) {
    if (payload === '[DONE]') continue;
    const chunk = JSON.parse(payload) as {
      id: string;
      choices: readonly { index: number; text?: string; delta?: { content?: string | null; tool_calls?: readonly { function?: Json }[] }; finish_reason?: string | null }[];
      usage?: typeof usage;
    };
    expect(chunk.id).toBe(path.includes('chat') ? 'chatcmpl-req-1' : 'cmpl-req-1');
    for (const { index, text, delta, finish_reason: reason } of chunk.choices) {
      texts[index] = (texts[index] ?? '') + (text ?? delta?.content ?? '');
      for (const call of delta?.tool_calls ?? []) toolCalls += JSON.stringify(call.function?.['arguments'] ?? '');
      if (reason !== null && reason !== undefined) finish[index] = reason;
    }
    usage = chunk.usage ?? usage;
  }
  if (connector === 'render') expectCounted(fleet, payloads.length);
  return { texts, finish, usage: usage && { prompt: usage.prompt_tokens, completion: usage.completion_tokens }, toolCalls: toolCalls.replaceAll('""', ''), isDone: payloads.at(-1) === '[DONE]' };
}

describe('a stream has the text of a direct one', () => {
  const rows: readonly (readonly [string, string, object])[] = [
    ['chat', '/v1/chat/completions', CHAT],
    ['chat, several choices', '/v1/chat/completions', { ...CHAT, n: 2 }],
    ['chat, a stop string', '/v1/chat/completions', { ...CHAT, stop: ['ca', 'q'] }],
    ['chat, until it ends by itself', '/v1/chat/completions', { ...CHAT, max_tokens: 2000 }],
    ['completions', '/v1/completions', { model: SIM_MODEL, prompt: 'Once upon a time', max_tokens: 40, seed: 1 }],
  ];
  test.each(rows)('%s', async (_name, path, body) => {
    await using fleet = await startSimFleet(['prefill', 'decode'], 'render');
    const rendered = await stream(fleet, 'render', { path, body });
    const direct = await stream(fleet, 'nixl', { path, body });
    expect(rendered).toEqual(direct);
    expect(rendered.isDone).toBe(true);
    await until(() => fleet.instances.every(({ inFlight }) => inFlight === 0));
  });
});

test('rendered once, on the prefill instance; legs carry token ids and the parameters of the pull; nothing is recorded per token', async () => {
  await using fleet = await startSimFleet(['prefill', 'decode'], 'render');
  await stream(fleet, 'render', { path: '/v1/chat/completions', body: CHAT });
  const asked = [0, 1].map((index) => fleet.sim(index).received.filter(({ method }) => method === 'POST').map(({ path }) => path));
  expect(asked[0]).toEqual(['/v1/chat/completions/render', '/inference/v1/generate']);
  expect(new Set(asked[1])).toEqual(new Set(['/inference/v1/generate', '/detokenize']));
  await until(() => fleet.tracer.last.state);
  expect(fleet.tracer.last.legs.map(({ init, outcome }) => [init.kind, outcome])).toEqual([['render', 'ok'], ['prefill', 'ok'], ['decode', 'ok']]);
  expect(fleet.instances.map(({ served, failed }) => [served, failed])).toEqual([[2, 0], [1, 0]]);
  expect(fleet.tracer.last.verdicts).toEqual([]);
  const facts = new Map(fleet.proxy.connectorStatus().facts.map(({ title, value }) => [title, value]));
  expect(facts.get('Requests rendered')).toBe(1);
  expect(facts.get('Streams decoded')).toBe(1);
  expect(facts.get('Calls of /detokenize')).toBe(asked[1]?.filter((path) => path === '/detokenize').length);
  const [, prefill, decode] = fleet.tracer.last.legs;
  expect(decode?.init.rewrites.map(({ field }) => field)).toEqual(['(body)', 'kv_transfer_params']);
  const sent = JSON.parse(String(decode?.init.body)) as { token_ids: readonly number[]; request_id?: string; sampling_params: { max_tokens: number; extra_args: { kv_transfer_params: Json } } };
  expect(sent.token_ids.length).toBeGreaterThan(10);
  expect(sent.request_id).toBeUndefined();
  expect(sent.sampling_params.max_tokens).toBe(24);
  expect(sent.sampling_params.extra_args.kv_transfer_params).toEqual(JSON.parse(String(prefill?.facts?.kvTransferParams)));
  expect(decode?.facts?.usage?.cachedTokens).toBeGreaterThan(10);
  await until(() => fleet.sim(0).stats().pinnedBlocks === 0);
});

test('a client\'s own generate request is not rendered', async () => {
  await using fleet = await startSimFleet(['prefill', 'decode'], 'render');
  const answer = await post(`${fleet.origin}/inference/v1/generate`, { model: SIM_MODEL, token_ids: [300, 301, 302], sampling_params: { max_tokens: 4 } });
  expect(answer.status).toBe(200);
  expect(((await answer.json()) as { choices: { token_ids: number[] }[] }).choices[0]?.token_ids).toHaveLength(4);
  expect(fleet.tracer.last.legs.map(({ init }) => init.kind)).toEqual(['prefill', 'decode']);
});

test.each([
  ['several prompts', '/v1/completions', { model: SIM_MODEL, prompt: ['a', 'b'], max_tokens: 2 }, '2 prompts: one is rendered and handed over'],
  ['echo', '/v1/completions', { model: SIM_MODEL, prompt: 'a', echo: true, max_tokens: 2 }, 'echo gives the prompt as text'],
  ['token ids beside the text', '/v1/chat/completions', { ...CHAT, return_token_ids: true }, 'return_token_ids gives tokens beside the text'],
])('%s: sent to decode as it is, and reported', async (_name, path, body, reason) => {
  await using fleet = await startSimFleet(['prefill', 'decode'], 'render');
  expect((await post(fleet.origin + path, body)).status).toBe(200);
  const { legs, verdicts } = fleet.tracer.last;
  expect(legs.map(({ init }) => [init.kind, init.url.replace(/^http:\/\/[^/]+/, ''), JSON.parse(String(init.body)) as unknown])).toEqual([['decode', path, body]]);
  expect(verdicts.map(({ code, message }) => [code, message])).toEqual([['not_rendered', `Sent to a decode instance as it is, without rendering and without a handoff: ${reason}.`]]);
});

test('the official client reads tool calls and text from re-emitted and made streams', async () => {
  await using fleet = await startSimFleet(['prefill', 'decode'], 'render');
  const client = new OpenAI({ baseURL: `${fleet.origin}/v1`, apiKey: 'k', maxRetries: 0 });
  const runner = client.chat.completions.stream({ ...CHAT, tools: TOOLS, tool_choice: 'required', max_tokens: 300 });
  const final = await runner.finalChatCompletion();
  expect(final.choices[0]?.finish_reason).toBe('tool_calls');
  expect(final.choices[0]?.message.tool_calls?.[0]).toMatchObject({ type: 'function', function: { name: 'lookup' } });
  const text = await client.chat.completions.stream(CHAT).finalContent();
  expect(text).toBe((await client.chat.completions.create(CHAT)).choices[0]?.message.content);
});
