import { afterEach, expect, test } from 'vitest';
import { CHAT_BODY, post, startHarness, type Harness } from './harness.ts';
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

async function harness(both: readonly string[], others: { readonly prefill?: readonly string[]; readonly decode?: readonly string[] } = {}): Promise<Harness> {
  const h = await startHarness({ connector: 'aggregated', ...others });
  open.push(h);
  for (const origin of both) h.scheduler.add('both', origin);
  return h;
}

const DONE = json({ choices: [{ index: 0, message: { content: 'hi' }, finish_reason: 'stop' }] });

test.each([
  ['/v1/chat/completions', '{"model":"m","messages":[],"n":2,"kv_transfer_params":{"mine":12345678901234567890},"max_tokens":7}'],
  ['/v1/completions', '{"model":"m","prompt":["a","b"],"min_tokens":3}'],
  ['/inference/v1/generate', '{"token_ids":[1,2],"sampling_params":{"max_tokens":1.0}}'],
])('%s: one instance gets the client\'s own bytes', async (path, body) => {
  const b = await upstream(DONE);
  const other = await upstream(DONE);
  const h = await harness([b.origin], { prefill: [other.origin], decode: [other.origin] });
  expect((await post(h.origin + path, body)).status).toBe(200);
  expect(b.received.map(({ url, body: got }) => [url, got.toString()])).toEqual([[path, body]]);
  expect(other.received).toEqual([]);
  expect(h.tracer.last.legs.map(({ init }) => [init.kind, init.rewrites])).toEqual([['decode', []]]);
  expect(h.tracer.last.verdicts).toEqual([]);
  expect(h.tracer.last.decisions[0]?.excluded.map(({ name, reason }) => [name, reason])).toEqual([['D0', 'role decode: aggregated serving needs instances of role both']]);
});

test('a failed try is repeated on another instance', async () => {
  const b = await upstream(DONE);
  const h = await harness([`http://127.0.0.1:${await closedPort()}`, b.origin]);
  expect((await post(`${h.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(200);
  expect((await post(`${h.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(200);
  expect(b.received).toHaveLength(2);
});

test('without an instance of role both: 503 with the reason, and the status says so', async () => {
  const d = await upstream(DONE);
  const h = await harness([], { decode: [d.origin] });
  const answer = await post(`${h.origin}/v1/chat/completions`, CHAT_BODY);
  expect(answer.status).toBe(503);
  expect(((await answer.json()) as { error: { message: string } }).error.message).toContain('role decode: aggregated serving needs instances of role both');
  expect(h.proxy.connectorStatus().notices.map(({ severity }) => severity)).toEqual(['error']);
  h.scheduler.add('both', d.origin);
  expect(h.proxy.connectorStatus()).toMatchObject({ notices: [], facts: [{ title: 'Instances of role both', value: 1 }] });
  expect((await post(`${h.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(200);
});
