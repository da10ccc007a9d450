/**
 * Conversations over the real fleet and simulated engines, which copy blocks by position and count it when what they
 * copied belongs to another prompt. The reference is one engine that computes everything itself.
 */
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import type { ProtocolOptions } from '#shared/protocol.ts';
import { Fleet } from '#engine/fleet/fleet.ts';
import { silentLogger } from '#engine/log.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { createProxy, type Proxy } from '#engine/proxy/proxy.ts';
import { createPrng } from '#engine/simulator/prng.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { post, RecordingTracer, until } from './harness.ts';

const MODEL = 'sim/Qwen3-8B';
const LONG = Array.from({ length: 150 }, (_, index) => `word${index}`).join(' ');

interface Message {
  readonly role: string;
  readonly content: string | null;
}

interface Answer {
  readonly text: string;
  readonly usage: { readonly prompt_tokens: number };
  readonly message: Message;
}

interface Cluster extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly origin: string;
  readonly tracer: RecordingTracer;
  readonly fleet: Fleet;
  readonly prefills: readonly SimInstance[];
  readonly decodes: readonly SimInstance[];
  readonly reference: SimInstance;
  /** A turn through the proxy; undefined when it failed. */
  ask(messages: readonly Message[], body?: object): Promise<Answer>;
  /** The same asked of the reference. */
  expected(messages: readonly Message[], body?: object): Promise<string | null>;
  corrupted(): number;
  fact(title: string): unknown;
}

interface ClusterOptions {
  readonly prefills?: number;
  readonly decodes?: number;
  readonly sim?: Partial<SimInstanceOptions>;
  readonly protocol?: Partial<ProtocolOptions>;
}

async function startCluster({ prefills: p = 1, decodes: d = 1, sim = {}, protocol = {} }: ClusterOptions = {}): Promise<Cluster> {
  const options = { speed: 100, bidirectional: true, leaseMs: 5000, recomputeThreshold: 1, ...sim };
  const start = (role: 'prefill' | 'decode', count: number): Promise<SimInstance[]> => Promise.all(Array.from({ length: count }, (_, index) => startSimInstance({ role, seed: index + (role === 'decode' ? 100 : 0), ...options })));
  const [prefills, decodes, reference] = await Promise.all([start('prefill', p), start('decode', d), startSimInstance({ role: 'both', speed: 100 })]);
  const fleet = new Fleet({ logger: silentLogger, healthIntervalMs: 100, scrapeIntervalMs: 60_000 });
  for (const instance of [...prefills, ...decodes]) await fleet.add({ role: instance.role, url: instance.url });
  const tracer = new RecordingTracer();
  const proxy = createProxy({
    scheduler: fleet, fleet, linter: createLinter({ fleet }), tracer, logger: silentLogger, connector: 'nixl-bidirectional', policy: 'round-robin', protocol, version: 'test',
    admin: { apiKey: 'k', add: (spec) => fleet.add(spec), remove: () => Promise.reject(new Error('not used')) },
    metricsPage: () => Promise.resolve({ contentType: 'text/plain', body: '' }),
  });
  const { port } = await proxy.listen(0, '127.0.0.1');
  const origin = `http://127.0.0.1:${port}`;
  const send = async (url: string, body: object): Promise<Answer> => {
    const response = await post(`${url}/v1/chat/completions`, { model: MODEL, max_tokens: 30, ...body });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
    const { choices, usage } = JSON.parse(text) as { choices: [{ message: Message }]; usage: Answer['usage'] };
    return { text, usage, message: choices[0].message };
  };
  return {
    proxy, origin, tracer, fleet, prefills, decodes, reference,
    async ask(messages, body = {}) {
      const answer = await send(origin, { messages, conversation_id: 'c', ...body });
      await until(() => tracer.last.state);
      return answer;
    },
    expected: async (messages, body = {}) => (await send(reference.url, { messages, ...body })).message.content,
    corrupted: () => [...prefills, ...decodes].reduce((sum, instance) => sum + instance.stats().corruptedLoads, 0),
    fact: (title) => proxy.connectorStatus().facts.find((one) => one.title === title)?.value,
    async [Symbol.asyncDispose]() {
      await proxy.close();
      await fleet.close();
      await Promise.all([...prefills, ...decodes, reference].map((instance) => instance.close()));
    },
  };
}

const FIRST: readonly Message[] = [{ role: 'user', content: LONG }];
const more = (content: string): Message => ({ role: 'user', content });
const codes = ({ tracer }: Cluster): string[] => tracer.last.verdicts.map(({ code }) => code);

test('turns reuse what decode holds: right text, blocks read once, and nothing stays pinned but the last turn', async () => {
  await using c = await startCluster({ prefills: 2, decodes: 2 });
  let messages = FIRST;
  for (let turn = 0; turn < 4; turn++) {
    const { message } = await c.ask(messages);
    expect(message.content).toBe(await c.expected(messages));
    messages = [...messages, { role: 'assistant', content: message.content }, more(`and ${turn}?`)];
  }
  expect([c.fact('Turns kept'), c.fact('Turns reused'), c.fact('Reuse refused'), c.fact('Reuse declined by prefill')]).toEqual([4, 3, 0, 0]);
  expect(c.corrupted()).toBe(0);
  await until(() => c.prefills.every((instance) => instance.stats().pinnedBlocks === 0));
  expect(c.decodes.map((instance) => instance.stats().leases).sort((a, b) => a - b)).toEqual([0, 1]);
  expect(c.tracer.requests.flatMap(({ verdicts }) => verdicts.map(({ code, message }) => `${code}: ${message}`))).toEqual([]);
});

test('an edited conversation is not reused, and answers as if it were new', async () => {
  await using c = await startCluster();
  await c.ask(FIRST);
  const edited = [...FIRST, { role: 'assistant', content: 'Something else was said here, by a person who edits histories' }, more('and?')];
  expect((await c.ask(edited)).message.content).toBe(await c.expected(edited));
  expect(codes(c)).toEqual(['conversation_edited']);
  expect([c.fact('Turns reused'), c.corrupted()]).toEqual([0, 0]);
});

test('stripped thinking is not reused', async () => {
  await using c = await startCluster();
  const thinking = { chat_template_kwargs: { enable_thinking: true }, max_tokens: 120 };
  const { message } = await c.ask(FIRST, thinking);
  const next = [...FIRST, message, more('and?')];
  expect((await c.ask(next, thinking)).message.content).toBe(await c.expected(next, thinking));
  expect(codes(c)).toEqual(['reasoning_stripped']);
  expect([c.fact('Turns reused'), c.corrupted()]).toEqual([0, 0]);
});

test('a tool call is not reused', async () => {
  await using c = await startCluster();
  const tools = { tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }], tool_choice: 'required', max_tokens: 200 };
  const { message } = await c.ask(FIRST, tools);
  const next = [...FIRST, message, { role: 'tool', content: 'sun' }];
  expect((await c.ask(next, tools)).message.content).toBe(await c.expected(next, tools));
  expect(codes(c)).toEqual(['tool_calls_rerendered']);
  expect([c.fact('Turns reused'), c.corrupted()]).toEqual([0, 0]);
});

test('blocks that decode has let go of: prefill declines and runs again', async () => {
  const decoderBlocksTtlMs = 30;
  await using c = await startCluster({ prefills: 2, sim: { decoderBlocksTtlMs } });
  const { message } = await c.ask(FIRST);
  const answeredAtMs = performance.now();
  // pdscope counts from when it heard of the blocks, which is later than when the engine began to.
  await until(() => c.decodes[0]?.stats().leases === 0 && performance.now() - answeredAtMs > decoderBlocksTtlMs);
  const next = [...FIRST, message, more('and?')];
  expect((await c.ask(next)).message.content).toBe(await c.expected(next));
  expect(codes(c)).toEqual(['late_read', 'reuse_declined']);
  expect(c.fact('Reuse declined by prefill')).toBe(1);
});

test('prefill that has the prompt in its own cache reads nothing, which is no fault', async () => {
  await using c = await startCluster({ sim: { recomputeThreshold: 64 } });
  const { message } = await c.ask(FIRST);
  await c.ask([...FIRST, message, more('and?')]);
  expect([c.fact('Turns reused'), c.fact('Not read by prefill'), codes(c)]).toEqual([0, 1, []]);
});

test('old conversations are forgotten before engines forget their blocks', async () => {
  await using c = await startCluster({ protocol: { conversationTtlMs: 1000 } });
  const { message } = await c.ask(FIRST);
  await until(() => c.proxy.connectorStatus().tables[0]?.total === 0);
  await c.ask([...FIRST, message, more('and?')]);
  expect([c.fact('Expired'), c.fact('Turns reused'), codes(c).length]).toEqual([1, 0, 0]);
});

test('a decode instance that restarted holds nothing: at worst prefill declines', async () => {
  await using c = await startCluster({ prefills: 2 });
  const { message } = await c.ask(FIRST);
  await c.decodes[0]?.setFault('restart');
  await until(() => c.fleet.list().every(({ state }) => state === 'up'));
  const next = [...FIRST, message, more('and?')];
  expect((await c.ask(next)).message.content).toBe(await c.expected(next));
  expect([c.fact('Turns reused'), c.corrupted()]).toEqual([0, 0]);
});

test('several ranks: the rank that decoded is asked again', async () => {
  await using c = await startCluster({ sim: { dpSize: 3 } });
  for (const { id } of c.fleet.list()) await until(() => c.fleet.get(id)?.dpSize === 3);
  let messages = FIRST;
  for (let turn = 0; turn < 4; turn++) {
    const { message } = await c.ask(messages);
    expect(message.content).toBe(await c.expected(messages));
    messages = [...messages, { role: 'assistant', content: message.content }, more(`and ${turn}?`)];
  }
  expect(c.fact('Turns reused')).toBe(3);
  expect(new Set(c.tracer.requests.map(({ legs }) => legs.at(-1)?.init.rank)).size).toBe(1);
});

test('streams: a patched engine is reused; today\'s needs re-emitted streams', async () => {
  for (const [paramsInStream, reemitStreams, reused] of [[true, false, 2], [false, true, 2], [false, false, 0]] as const) {
    await using c = await startCluster({ sim: { paramsInStream }, protocol: { reemitStreams } });
    const client = new OpenAI({ baseURL: `${c.origin}/v1`, apiKey: 'k', maxRetries: 0, defaultHeaders: { 'x-session-id': 's' } });
    let messages = FIRST;
    for (let turn = 0; turn < 3; turn++) {
      let content = '';
      let usage: OpenAI.CompletionUsage | undefined;
      const stream = await client.chat.completions.create({ model: MODEL, max_tokens: 30, messages: messages as never, stream: true, stream_options: { include_usage: true } });
      for await (const chunk of stream) {
        content += chunk.choices[0]?.delta.content ?? '';
        usage = chunk.usage ?? usage;
      }
      expect(content).toBe(await c.expected(messages));
      expect(usage?.prompt_tokens).toBeGreaterThan(150);
      await until(() => c.tracer.last.state);
      messages = [...messages, { role: 'assistant', content }, more(`and ${turn}?`)];
    }
    expect([c.fact('Turns reused'), c.corrupted()]).toEqual([reused, 0]);
  }
});

test('completions: text that goes on, and token ids', async () => {
  await using c = await startCluster();
  const complete = async (prompt: unknown, extra: object = {}): Promise<{ text: string; token_ids: number[]; prompt_token_ids?: number[] }> => {
    const response = await post(`${c.origin}/v1/completions`, { model: MODEL, prompt, max_tokens: 20, ignore_eos: true, conversation_id: 't', ...extra });
    const { choices } = (await response.json()) as { choices: [{ text: string; token_ids: number[]; prompt_token_ids: number[] }] };
    await until(() => c.tracer.last.state);
    return choices[0];
  };
  const first = await complete(LONG);
  await complete(`${LONG}${first.text} and on`);
  const isReused = c.fact('Turns reused') === 1;
  // A text that ends in white space may merge with what follows.
  expect(isReused).toBe(!/\s$/.test(first.text));
  const prompt = Array.from({ length: 200 }, (_, index) => 1000 + index);
  const tokens = await complete(prompt, { return_token_ids: true });
  await complete([...prompt, ...tokens.token_ids, 1000, 1001], { return_token_ids: true });
  expect(c.fact('Turns reused')).toBe(isReused ? 2 : 1);
  expect(c.corrupted()).toBe(0);
});

test.each([false, true])('token ids in and out (/inference/v1/generate), streamed: %s', async (stream) => {
  await using c = await startCluster({ protocol: { reemitStreams: true } });
  let tokens = Array.from({ length: 200 }, (_, index) => 1000 + index);
  for (let turn = 0; turn < 3; turn++) {
    const body = { model: MODEL, token_ids: tokens, sampling_params: { max_tokens: 20 }, conversation_id: 'g', stream };
    const text = await (await post(`${c.origin}/inference/v1/generate`, body)).text();
    await until(() => c.tracer.last.state);
    const answers = stream ? text.split('\n\n').slice(0, -2).map((event) => event.replace('data: ', '')) : [text];
    const answered = answers.flatMap((answer) => (JSON.parse(answer) as { choices: { token_ids: number[] }[] }).choices.flatMap(({ token_ids }) => token_ids));
    expect(answered.length).toBeGreaterThan(3);
    tokens = [...tokens, ...answered, 1000 + turn];
  }
  expect([c.fact('Turns reused'), c.fact('Streams re-emitted'), c.corrupted()]).toEqual([2, stream ? 3 : 0, 0]);
});

test('whatever clients do with their histories, no answer is computed on foreign blocks', async () => {
  await using c = await startCluster({ prefills: 2, decodes: 2 });
  const random = createPrng(7);
  let asked = 0;
  const converse = async (id: number): Promise<void> => {
    let messages: readonly Message[] = [more(`${LONG} ${id % 3}`)];
    for (let turn = 0; turn < 6; turn++) {
      const body = { conversation_id: `c${id % 4}`, max_tokens: 5 + random.int(40), ...(random.int(5) === 0 && { chat_template_kwargs: { enable_thinking: true } }), ...(random.int(6) === 0 && { stop: [' a', 'e'] }) };
      const answer = await c.ask(messages, body);
      asked++;
      expect(answer.message.content).toBe(await c.expected(messages, body));
      const reply = { role: 'assistant', content: random.int(5) === 0 ? `${answer.message.content ?? ''} (edited)` : answer.message.content };
      messages = random.int(6) === 0 ? [...messages.slice(0, -1), more('instead')] : [...messages, reply, more(`next ${turn}`)];
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, id) => converse(id)));
  expect(asked).toBe(48);
  expect(c.corrupted()).toBe(0);
  expect(Number(c.fact('Turns reused'))).toBeGreaterThan(5);
  expect(Number(c.fact('Reuse refused'))).toBeGreaterThan(5);
});
