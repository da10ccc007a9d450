/** The encode stage over scripted instances: what each gets, what happens when one fails, and when there is nothing to do. */
import { afterEach, describe, expect, test } from 'vitest';
import { post, startHarness, until, type Harness, type HarnessOptions } from './harness.ts';
import { closedPort, json, startUpstream, type Script, type ScriptedUpstream } from './scripted-upstream.ts';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one[Symbol.asyncDispose]();
});

async function upstream(script: Script): Promise<ScriptedUpstream> {
  const started = await startUpstream(script);
  open.push(started);
  return started;
}

async function harness(options: HarnessOptions): Promise<Harness> {
  const started = await startHarness(options);
  open.push(started);
  return started;
}

const DONE = json({ id: 'x', choices: [{ index: 0, message: { content: 'hi' }, finish_reason: 'stop' }] });
const image = (url: string): object => ({ type: 'image_url', image_url: { url } });
const MEDIA = {
  model: 'vl',
  messages: [
    { role: 'system', content: [image('file:///a.png'), { type: 'text', text: 'x' }] },
    { role: 'user', content: [{ type: 'text', text: 'what?' }, image('https://h/b.png'), { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }] },
  ],
};

interface Cluster {
  readonly h: Harness;
  readonly p: ScriptedUpstream;
  readonly d: ScriptedUpstream;
}

async function cluster(encode: readonly string[], options: HarnessOptions = {}): Promise<Cluster> {
  const p = await upstream(DONE);
  const d = await upstream(DONE);
  const h = await harness({ prefill: [p.origin], decode: [d.origin], ...options });
  for (const origin of encode) h.scheduler.add('encode', origin);
  return { h, p, d };
}

const chat = (h: Harness, body: object = MEDIA, headers?: Record<string, string>): Promise<Response> => post(`${h.origin}/v1/chat/completions`, body, headers);

async function errorOf(answer: Response): Promise<{ readonly message: string; readonly code: unknown; readonly leg: unknown }> {
  const { error, pdscope } = (await answer.json()) as { error: { message: string; code: unknown }; pdscope: { leg?: unknown } };
  return { message: error.message, code: error.code, leg: pdscope.leg };
}

test('parts that are lost together on the only encode instance are all encoded again, once', async () => {
  let lost = 3;
  const e = await upstream((res, request, index) => void (lost-- > 0 ? res.destroy() : DONE(res, request, index)));
  const { h, p } = await cluster([e.origin]);
  expect((await chat(h)).status).toBe(200);
  expect([e.received.length, p.received.length]).toEqual([6, 1]);
  lost = 4;
  const refused = await chat(h);
  expect([refused.status, (await errorOf(refused)).code]).toEqual([502, 'upstream_reset']);
});

test('one leg per part, together, before prefill; the client\'s request goes on unchanged', async () => {
  const waiting: (() => void)[] = [];
  const e = await upstream((res, request, index) => {
    waiting.push(() => void DONE(res, request, index));
  });
  const { h, p, d } = await cluster([e.origin]);
  const answering = chat(h, MEDIA, { 'x-request-id': 'parent' });
  await until(() => waiting.length === 3);
  expect(p.received).toHaveLength(0);
  for (const release of waiting) release();
  expect((await answering).status).toBe(200);

  const byIndex = e.received.toSorted((a, b) => String(a.headers['x-request-id']).localeCompare(String(b.headers['x-request-id'])));
  expect(byIndex.map(({ url }) => url)).toEqual(Array.from({ length: 3 }, () => '/v1/chat/completions'));
  expect(byIndex.map(({ headers }) => String(headers['x-request-id']).replace(/[0-9a-f]{6}$/, 'HEX6'))).toEqual(['parent:0:HEX6', 'parent:1:HEX6', 'parent:2:HEX6']);
  expect(byIndex.map(({ json: body }) => body)).toEqual([
    { model: 'vl', messages: [{ role: 'system', content: [image('file:///a.png')] }], stream: false, max_tokens: 1 },
    { model: 'vl', messages: [{ role: 'user', content: [image('https://h/b.png')] }], stream: false, max_tokens: 1 },
    { model: 'vl', messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }] }], stream: false, max_tokens: 1 },
  ]);
  expect(d.received[0]?.json).toEqual(MEDIA);
  expect(p.received[0]?.headers['x-request-id']).toBe('parent');
  expect(h.tracer.last.legs.map(({ init, outcome }) => [init.kind, outcome])).toEqual([
    ['encode', 'ok'], ['encode', 'ok'], ['encode', 'ok'], ['prefill', 'ok'], ['decode', 'ok'],
  ]);
  expect(h.tracer.last.legs[1]?.init.rewrites).toEqual([{ field: 'messages', to: 'only messages[1].content[1]' }]);
  expect(h.scheduler.inFlight).toBe(0);
});

describe('nothing to do', () => {
  test.each([
    ['text only', '/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'hi' }] }],
    ['completions', '/v1/completions', { model: 'm', prompt: 'hi', messages: MEDIA.messages }],
  ])('%s', async (_name, path, body) => {
    const e = await upstream(DONE);
    const { h } = await cluster([e.origin]);
    expect((await post(h.origin + path, body)).status).toBe(200);
    expect(e.received).toHaveLength(0);
  });

  test('no encode instance: prefill encodes itself', async () => {
    const { h, p } = await cluster([]);
    expect((await chat(h)).status).toBe(200);
    expect(p.received[0]?.json['messages']).toEqual(MEDIA.messages);
    expect(h.tracer.last.verdicts).toEqual([]);
  });

  test('switched off', async () => {
    const e = await upstream(DONE);
    const { h } = await cluster([e.origin]);
    h.proxy.setProtocol({ encodeStage: 'off' });
    expect((await chat(h)).status).toBe(200);
    expect(e.received).toHaveLength(0);
    h.proxy.setProtocol({ encodeStage: 'auto' });
    expect((await chat(h)).status).toBe(200);
    expect(e.received).toHaveLength(3);
  });
});

describe('failures', () => {
  test('a refusal reaches the client as it is and stops the rest', async () => {
    const e = await upstream((res, request, index) => {
      if (!String(request.headers['x-request-id']).includes(':1:')) return;
      void json({ error: { message: 'no such image', type: 'BadRequestError', param: null, code: 400 } }, 400)(res, request, index);
    });
    const { h, p } = await cluster([e.origin, e.origin]);
    const answer = await chat(h);
    expect(answer.status).toBe(400);
    expect(await errorOf(answer)).toEqual({ message: 'no such image', code: 400, leg: 'encode' });
    expect(p.received).toHaveLength(0);
    await until(() => e.received.filter(({ isAborted }) => isAborted).length === 2);
    expect(h.tracer.last.legs.map(({ outcome }) => String(outcome)).toSorted((a, b) => a.localeCompare(b))).toEqual(['aborted', 'aborted', 'error']);
    expect(h.tracer.last.retries).toBe(0);
    expect(h.scheduler.inFlight).toBe(0);
  });

  test('an engine error keeps its status once the other instances failed too', async () => {
    const broken = json({ error: { message: 'encoder out of memory', code: 500 } }, 500);
    const { h } = await cluster([(await upstream(broken)).origin, (await upstream(broken)).origin]);
    const answer = await chat(h);
    expect(answer.status).toBe(500);
    expect((await errorOf(answer)).message).toBe('encoder out of memory');
  });

  test('nothing listens: 502', async () => {
    const { h, p } = await cluster([`http://127.0.0.1:${await closedPort()}`]);
    const answer = await chat(h);
    expect(answer.status).toBe(502);
    expect(await errorOf(answer)).toMatchObject({ code: 'connect_failed', leg: 'encode' });
    expect(p.received).toHaveLength(0);
  });

  test('many legs on one dead instance: all go on to the other, for one try of the budget', async () => {
    const e = await upstream(DONE);
    const { h } = await cluster([`http://127.0.0.1:${await closedPort()}`, e.origin], { maxRetries: 1 });
    const body = { model: 'vl', messages: [{ role: 'user', content: Array.from({ length: 12 }, (_, index) => image(`https://h/${index}`)) }] };
    expect((await chat(h, body)).status).toBe(200);
    expect(e.received.map(({ json: got }) => JSON.stringify(got['messages']).replace(/\D/g, '')).map(Number).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 12 }, (_, index) => index),
    );
  });

  test('registered but none usable: 503 names them', async () => {
    const e = await upstream(DONE);
    const { h, p } = await cluster([e.origin]);
    const [, , encoder] = h.scheduler.instances;
    if (encoder === undefined) throw new Error('no encoder');
    h.scheduler.excluded.set(encoder, 'down: connection refused');
    const answer = await chat(h);
    expect(answer.status).toBe(503);
    expect((await errorOf(answer)).message).toBe(`No encode instance can take the request: ${encoder.name} (${e.origin}): down: connection refused`);
    expect(p.received).toHaveLength(0);
    expect((await chat(h, { model: 'm', messages: [{ role: 'user', content: 'text needs no encoder' }] })).status).toBe(200);
  });

  test('too many parts: 400 says how many', async () => {
    const e = await upstream(DONE);
    const { h } = await cluster([e.origin]);
    const answer = await chat(h, { messages: [{ role: 'user', content: Array.from({ length: 1001 }, () => image('x')) }] });
    expect(answer.status).toBe(400);
    expect((await errorOf(answer)).message).toBe('The request has 1001 media parts; at most 1000 are encoded for one request.');
    expect(e.received).toHaveLength(0);
  });

  test('the client leaves: every encode leg is cancelled', async () => {
    const e = await upstream(() => undefined);
    const { h, p } = await cluster([e.origin]);
    const leaving = new AbortController();
    const answering = post(`${h.origin}/v1/chat/completions`, MEDIA, {}, leaving.signal).catch(() => 'left');
    await until(() => e.received.length === 3);
    leaving.abort();
    expect(await answering).toBe('left');
    await until(() => e.received.every(({ isAborted }) => isAborted));
    await until(() => h.tracer.last.state === 'aborted');
    expect(p.received).toHaveLength(0);
    expect(h.scheduler.inFlight).toBe(0);
  });
});

test('a rank that the client pinned concerns those who serve the request', async () => {
  const e = await upstream(DONE);
  const { h, p, d } = await cluster([e.origin]);
  expect((await chat(h, MEDIA, { 'x-data-parallel-rank': '3', 'x-session-id': 's' })).status).toBe(200);
  const pins = [e, p, d].map(({ received }) => [received[0]?.headers['x-data-parallel-rank'], received[0]?.headers['x-session-id']]);
  expect(pins).toEqual([[undefined, 's'], ['3', 's'], ['3', 's']]);
});

test('once per request, not again when prefill and decode are repeated', async () => {
  const e = await upstream(DONE);
  const broken = await upstream(json({ error: { message: 'oops' } }, 500));
  const { h, p, d } = await cluster([e.origin]);
  h.scheduler.add('prefill', broken.origin);
  for (let turn = 0; turn < 2; turn++) expect((await chat(h)).status).toBe(200);
  expect(broken.received.length).toBeGreaterThan(0);
  expect(e.received).toHaveLength(6);
  expect(p.received.length).toBe(2);
  expect(d.received.length).toBe(2);
});
