/** Render mode against scripted engines: what they leave out, break off or answer wrongly. */
import { afterEach, describe, expect, test } from 'vitest';
import { CHAT_BODY, post, startHarness, until, type Harness } from './harness.ts';
import { json, startUpstream, type Script, type ScriptedUpstream } from './scripted-upstream.ts';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one[Symbol.asyncDispose]();
});

async function upstream(script: Script): Promise<ScriptedUpstream> {
  const started = await startUpstream(script);
  open.push(started);
  return started;
}

/** Answers by path; a path without script has FastAPI's 404. */
function routes(scripts: Readonly<Record<string, Script>>): Script {
  return (res, request, index) => (scripts[request.url] ?? json({ detail: 'Not Found' }, 404))(res, request, index);
}

const RENDERED = { request_id: 'x', token_ids: [9, 8, 7, 6, 5, 4, 3], features: null, sampling_params: { max_tokens: 8, stop: [] }, model: 'test-model', stream: true, kv_transfer_params: null };
const RENDER = '/v1/chat/completions/render';
const DERENDER = '/v1/chat/completions/derender';
const GENERATE = '/inference/v1/generate';
const PARAMS = { do_remote_prefill: true, remote_engine_id: 'e', remote_block_ids: [[1]], remote_request_id: 'r', remote_host: '10.0.0.1', remote_port: 5600, tp_size: 1 };
const PREFILLED = json({ request_id: 'g', choices: [{ index: 0, token_ids: [1], finish_reason: 'length' }], kv_transfer_params: PARAMS });
/** Text of a token: its number in angle brackets. */
const detokenize: Script = (res, request, index) => {
  const tokens = request.json['tokens'] as readonly number[];
  void json({ prompt: tokens.map((token) => `<${token}>`).join('') })(res, request, index);
};
const chunk = (tokens: readonly number[], finish: string | null = null): string =>
  `data: ${JSON.stringify({ request_id: 'g', choices: [{ index: 0, logprobs: null, finish_reason: finish, token_ids: tokens }] })}\n\n`;

/** Events that a test lets go one by one. */
function held(): { readonly script: Script; send(text: string): void; end(): void; reset(): void } {
  let answer: Parameters<Script>[0] | undefined;
  const ready = (): Parameters<Script>[0] => {
    if (answer === undefined) throw new Error('not asked yet');
    return answer;
  };
  return {
    script: (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
      res.flushHeaders();
      answer = res;
    },
    send: (text) => void ready().write(text),
    end: () => void ready().end(),
    reset: () => void ready().destroy(),
  };
}

async function harness(p: ScriptedUpstream, d: ScriptedUpstream): Promise<Harness> {
  const h = await startHarness({ connector: 'render', prefill: [p.origin], decode: [d.origin] });
  open.push(h);
  return h;
}

const chat = (h: Harness, extra: object = {}): Promise<Response> => post(`${h.origin}/v1/chat/completions`, { ...CHAT_BODY, ...extra });
const prefill = routes({ [RENDER]: json(RENDERED), [GENERATE]: PREFILLED });

async function errorOf(answer: Response): Promise<{ readonly message: string; readonly leg: unknown }> {
  const { error, pdscope } = (await answer.json()) as { error: { message: string }; pdscope: { leg?: unknown } };
  return { message: error.message, leg: pdscope.leg };
}

describe('routes that engines lack', () => {
  test.each([
    ['render', {}, RENDER, 'render'],
    ['generate', { [RENDER]: json(RENDERED) }, GENERATE, 'prefill'],
  ])('%s: 501 names the route and the flag, and is a finding', async (_name, scripts, path, leg) => {
    const p = await upstream(routes(scripts));
    const h = await harness(p, await upstream(json({})));
    const answer = await chat(h);
    expect(answer.status).toBe(501);
    const error = await errorOf(answer);
    expect(error.leg).toBe(leg);
    expect(error.message).toContain(`P0 (${p.origin}) has no ${path}, which render mode needs.`);
    expect(error.message).toContain('--enable-scale-out');
    expect(h.tracer.last.verdicts.map(({ code, severity, instance }) => ({ code, severity, instance }))).toEqual([{ code: 'render_unsupported', severity: 'error', instance: 'p0' }]);
    expect(h.tracer.last.retries).toBe(0);
  });

  const whole = json({ request_id: 'g', choices: [{ index: 0, token_ids: [5, 6], finish_reason: 'length' }], usage: { prompt_tokens: 7, completion_tokens: 2 } });

  test('derender, when the answer needs the engine\'s parsers', async () => {
    const p = await upstream(prefill);
    const d = await upstream(routes({ [GENERATE]: whole, '/detokenize': detokenize }));
    const h = await harness(p, d);
    const answer = await chat(h, { logprobs: true });
    expect(answer.status).toBe(501);
    expect((await errorOf(answer)).message).toContain(`P0 (${p.origin}) has no ${DERENDER}`);
    expect(h.tracer.last.verdicts.map(({ code }) => code)).toEqual(['render_unsupported']);
  });

  test('derender, when text will do: tokens are decoded, and that is reported', async () => {
    const p = await upstream(prefill);
    const d = await upstream(routes({ [GENERATE]: whole, '/detokenize': detokenize }));
    const h = await harness(p, d);
    const answer = await post(`${h.origin}/v1/chat/completions`, CHAT_BODY, { 'x-request-id': 'mine' });
    expect(answer.status).toBe(200);
    const body = (await answer.json()) as { created: number };
    expect(body).toEqual({
      id: 'chatcmpl-mine',
      object: 'chat.completion',
      created: body.created,
      model: 'test-model',
      choices: [{ index: 0, message: { role: 'assistant', content: '<5><6>' }, logprobs: null, finish_reason: 'length', stop_reason: null }],
      usage: { prompt_tokens: 7, completion_tokens: 2 },
    });
    expect(h.tracer.last.verdicts.map(({ code, severity }) => [code, severity])).toEqual([['not_derendered', 'info']]);
  });

  test('an empty 404 counts as well', async () => {
    const h = await harness(await upstream((res) => void res.writeHead(404).end()), await upstream(json({})));
    expect((await chat(h)).status).toBe(501);
  });

  test('a model that does not exist stays the engine\'s 404', async () => {
    const p = await upstream(json({ error: { message: 'The model `nope` does not exist.', type: 'NotFoundError', code: 404 } }, 404));
    const h = await harness(p, await upstream(json({})));
    const answer = await chat(h);
    expect(answer.status).toBe(404);
    expect((await errorOf(answer)).message).toBe('The model `nope` does not exist.');
    expect(h.tracer.last.verdicts).toEqual([]);
  });
});

test('a refusal of the render route reaches the client as it is', async () => {
  const p = await upstream(json({ error: { message: 'min_tokens must be less', type: 'BadRequestError', code: 400 } }, 400));
  const answer = await chat(await harness(p, await upstream(json({}))));
  expect([answer.status, (await errorOf(answer)).message]).toEqual([400, 'min_tokens must be less']);
});

test.each([['no token ids', { sampling_params: {} }], ['two prompts', [RENDERED, RENDERED]], ['empty', { token_ids: [] }]])('an odd rendering (%s) is a 502', async (_name, rendered) => {
  const answer = await chat(await harness(await upstream(routes({ [RENDER]: json(rendered), [GENERATE]: PREFILLED })), await upstream(json({}))));
  expect(answer.status).toBe(502);
  expect((await errorOf(answer)).message).toContain(`answered ${RENDER} with something other than one prompt's token ids`);
});

test('a repeated pair is not rendered again', async () => {
  const p = await upstream(prefill);
  let tries = 0;
  const d = await upstream(
    routes({
      [GENERATE]: (res, request, index) => void (tries++ === 0 ? json({ error: { message: 'load failed' } }, 500) : PREFILLED)(res, request, index),
    }),
  );
  p.script = routes({ [RENDER]: json(RENDERED), [GENERATE]: PREFILLED, [DERENDER]: json({ id: 'g', choices: [{ index: 0, message: { content: 'hi' }, finish_reason: 'length' }] }) });
  const h = await harness(p, d);
  const answer = await chat(h);
  expect(answer.status).toBe(200);
  expect(p.received.map(({ url }) => url)).toEqual([RENDER, GENERATE, GENERATE, DERENDER]);
  expect(h.tracer.last.retries).toBe(1);
});

test('what derender is asked: tokens, prompt, the client\'s request without stream', async () => {
  const p = await upstream(
    routes({ [RENDER]: json(RENDERED), [GENERATE]: PREFILLED, [DERENDER]: json({ id: 'g', choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'length' }], usage: { prompt_tokens: 0 } }) }),
  );
  const generated = { request_id: 'generate-tokens-x', choices: [{ index: 0, token_ids: [5, 6], finish_reason: 'length' }], usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 }, kv_transfer_params: null };
  const h = await harness(p, await upstream(routes({ [GENERATE]: json(generated) })));
  const logprobs = { logprobs: true, stream: true, stream_options: { include_usage: true } };
  const answer = await chat(h, logprobs);
  expect(p.received.at(-1)?.json).toEqual({
    model: 'test-model',
    prompt_tokens: 7,
    prompt_token_ids: [7, 6, 5, 4, 3],
    chat_request: { ...CHAT_BODY, logprobs: true, stream: false },
    generate_response: generated,
  });
  const text = await answer.text();
  expect(text).toContain('"content":"hi"');
  expect(text).toContain('"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}');
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
});

describe('a stream of tokens', () => {
  test('what the decode leg and /detokenize are asked', async () => {
    const tokens = held();
    const p = await upstream(prefill);
    const d = await upstream(routes({ [GENERATE]: tokens.script, '/detokenize': detokenize }));
    const h = await harness(p, d);
    const answering = chat(h, { stream: true });
    await until(() => d.received.length === 1);
    expect(d.received[0]?.json).toEqual({
      token_ids: RENDERED.token_ids,
      features: null,
      sampling_params: { max_tokens: 8, stop: [], extra_args: { kv_transfer_params: PARAMS } },
      model: 'test-model',
      stream: true,
      kv_transfer_params: PARAMS,
    });
    expect(p.received[1]?.json).toMatchObject({ stream: false, sampling_params: { max_tokens: 1, extra_args: { kv_transfer_params: { do_remote_decode: true } } } });
    tokens.send(chunk([11]));
    tokens.send(`${chunk([12], 'length')}data: [DONE]\n\n`);
    tokens.end();
    const text = await (await answering).text();
    expect(d.received.slice(1).map(({ json: body }) => body['model'])).toContain('test-model');
    expect(d.received[1]?.json['tokens']).toEqual([7, 6, 5, 4, 3]);
    expect(contentOf(text)).toBe('<11><12>');
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  });

  test('breaks off: what came is shown, then an error and no [DONE]', async () => {
    const tokens = held();
    const d = await upstream(routes({ [GENERATE]: tokens.script, '/detokenize': detokenize }));
    const h = await harness(await upstream(prefill), d);
    const answering = chat(h, { stream: true });
    await until(() => d.received.length === 1);
    tokens.send(chunk([11]));
    const answer = await answering;
    await until(() => h.tracer.last.chunks > 0);
    tokens.reset();
    const text = await answer.text();
    expect(contentOf(text)).toBe('<11>');
    expect(text).toContain('"code":"upstream_reset"');
    expect(text).not.toContain('[DONE]');
    await until(() => h.tracer.last.state);
    expect(h.tracer.last.state).toBe('error');
  });

  test('an error event of the engine is passed on', async () => {
    const event = 'data: {"error":{"message":"KV load failed","type":"InternalServerError","code":500}}\n\n';
    const tokens = held();
    const d = await upstream(routes({ [GENERATE]: tokens.script, '/detokenize': detokenize }));
    const h = await harness(await upstream(prefill), d);
    const answering = chat(h, { stream: true });
    await until(() => d.received.length === 1);
    tokens.send(`${chunk([11])}${event}data: [DONE]\n\n`);
    tokens.end();
    const text = await (await answering).text();
    expect(text.endsWith(`${event}data: [DONE]\n\n`)).toBe(true);
    expect(contentOf(text)).toBe('<11>');
    await until(() => h.tracer.last.state);
    expect(h.tracer.last.legs.at(-1)?.outcome).toBe('error');
  });

  test('text cannot be had at all: the client gets the status, as nothing went out before', async () => {
    const tokens = held();
    const d = await upstream(routes({ [GENERATE]: tokens.script, '/detokenize': json({ error: { message: 'no tokenizer' } }, 500) }));
    const h = await harness(await upstream(routes({ [RENDER]: json(RENDERED), [GENERATE]: PREFILLED, '/detokenize': json({ error: { message: 'no tokenizer' } }, 500) })), d);
    const answering = chat(h, { stream: true });
    await until(() => d.received.length === 1);
    tokens.send(chunk([11]));
    const answer = await answering;
    expect([answer.status, answer.headers.get('content-type'), (await errorOf(answer)).message]).toEqual([500, 'application/json', 'no tokenizer']);
    await until(() => d.received[0]?.isAborted);
    await until(() => h.tracer.last.state);
    expect(h.tracer.last).toMatchObject({ state: 'error', respondedWith: 500 });
    expect(h.scheduler.inFlight).toBe(0);
  });

  test('text cannot be had any more: the stream ends with the reason and the decode leg is cancelled', async () => {
    const tokens = held();
    let calls = 0;
    const d = await upstream(routes({ [GENERATE]: tokens.script, '/detokenize': (res, request, index) => void (calls++ < 2 ? detokenize : json({ error: { message: 'no tokenizer' } }, 500))(res, request, index) }));
    const h = await harness(await upstream(prefill), d);
    const answering = chat(h, { stream: true });
    await until(() => d.received.length === 1);
    tokens.send(chunk([11]));
    const answer = await answering;
    await until(() => h.tracer.last.chunks > 0);
    tokens.send(chunk([12]));
    const text = await answer.text();
    expect(contentOf(text)).toBe('<11>');
    expect(text).toContain('no tokenizer');
    expect(text).not.toContain('[DONE]');
    await until(() => d.received[0]?.isAborted);
    await until(() => h.tracer.last.state);
    expect(h.scheduler.inFlight).toBe(0);
  });

  test('a call that was lost is made again, on the instance that rendered when the other is not well', async () => {
    const tokens = held();
    const p = await upstream(routes({ [RENDER]: json(RENDERED), [GENERATE]: PREFILLED, '/detokenize': detokenize }));
    const lost: Script[] = [(res) => void res.destroy(), json({ error: { message: 'busy' } }, 500)];
    const d = await upstream(routes({ [GENERATE]: tokens.script, '/detokenize': (res, request, index) => void (lost.shift() ?? detokenize)(res, request, index) }));
    const h = await harness(p, d);
    const answering = chat(h, { stream: true });
    await until(() => d.received.length === 1);
    tokens.send(chunk([11]));
    await until(() => h.tracer.last.chunks > 0);
    tokens.send(`${chunk([12], 'length')}data: [DONE]\n\n`);
    tokens.end();
    expect(contentOf(await (await answering).text())).toBe('<11><12>');
    expect(p.received.map(({ url }) => url)).toEqual([RENDER, GENERATE, '/detokenize']);
    expect(h.tracer.last).toMatchObject({ retries: 0, verdicts: [] });
  });

  test('the client leaves: decode leg and decoding stop', async () => {
    const tokens = held();
    const d = await upstream(routes({ [GENERATE]: tokens.script, '/detokenize': () => undefined }));
    const h = await harness(await upstream(prefill), d);
    const leaving = new AbortController();
    const answering = post(`${h.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true }, {}, leaving.signal).catch(() => 'left');
    await until(() => d.received.length === 1);
    tokens.send(chunk([11]));
    await until(() => d.received.length === 3);
    leaving.abort();
    expect(await answering).toBe('left');
    await until(() => d.received.every(({ isAborted }) => isAborted));
    await until(() => h.tracer.last.state === 'aborted');
    expect(h.scheduler.inFlight).toBe(0);
  });

  test('tokens that wait for text hold the decode leg back, and nothing is lost', async () => {
    const releases: (() => void)[] = [];
    let isHeld = true;
    const tokens = held();
    const d = await upstream(
      routes({
        [GENERATE]: tokens.script,
        '/detokenize': (res, request, index) => {
          if (!isHeld) return detokenize(res, request, index);
          releases.push(() => void detokenize(res, request, index));
        },
      }),
    );
    const h = await harness(await upstream(prefill), d);
    const answering = chat(h, { stream: true });
    await until(() => d.received.length === 1);
    tokens.send(chunk([1]));
    await until(() => releases.length === 2);
    const numbers = Array.from({ length: 6000 }, (_, index) => index + 2);
    for (let at = 0; at < numbers.length; at += 50) tokens.send(chunk(numbers.slice(at, at + 50)));
    tokens.send(`${chunk([7000], 'length')}data: [DONE]\n\n`);
    tokens.end();
    isHeld = false;
    for (const release of releases) release();
    expect(contentOf(await (await answering).text())).toBe([1, ...numbers, 7000].map((token) => `<${token}>`).join(''));
  });
});

/** The text of all chunks. */
function contentOf(stream: string): string {
  return stream
    .split('\n')
    .flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6)) as { choices?: readonly { delta?: { content?: string } }[] }] : []))
    .map(({ choices }) => choices?.[0]?.delta?.content ?? '')
    .join('');
}
