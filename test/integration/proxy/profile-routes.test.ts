/** Profiling fan-out, and the health routes in the reference proxies' shapes. */
import { expect, test } from 'vitest';
import { startHarness } from './harness.ts';
import { startUpstream, type Script } from './scripted-upstream.ts';

const OK: Script = (res) => void res.writeHead(200).end();
const MISSING: Script = (res) => void res.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
const BROKEN: Script = (res) => void res.writeHead(500).end('profiler is running already');

const unasked = (): Promise<never> => Promise.reject(new Error('not asked for'));

async function post(origin: string, path: string, body?: unknown): Promise<{ status: number; json: Record<string, unknown> }> {
  const response = await fetch(`${origin}${path}`, { method: 'POST', ...(body !== undefined && { body: JSON.stringify(body) }) });
  return { status: response.status, json: (await response.json()) as Record<string, unknown> };
}

test('profiling goes to all instances, and a missing profiler is reported, not an error', async () => {
  await using prefill = await startUpstream(OK);
  await using decode = await startUpstream(MISSING);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const { status, json } = await post(harness.origin, '/start_profile');
  expect(status).toBe(200);
  const p0 = { instance: 'p0', name: 'P0', url: prefill.origin, outcome: 'ok', status: 200 };
  expect(json).toEqual({
    encode: null, prefill: [p0], decode: null,
    instances: [p0, { instance: 'd0', name: 'D0', url: decode.origin, outcome: 'unsupported', status: 404, message: expect.stringContaining('--profiler-config') }],
  });
  expect(prefill.received.map(({ method, url }) => `${method} ${url}`)).toEqual(['POST /start_profile']);
});

test('profiling goes to those named, by name or id, and to no one else', async () => {
  await using prefill = await startUpstream(OK);
  await using decode = await startUpstream(OK);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  expect((await post(harness.origin, '/stop_profile', { instances: ['d0'] })).status).toBe(200);
  expect([prefill.received.length, decode.received.map(({ url }) => url)]).toEqual([0, ['/stop_profile']]);
  const unknown = await post(harness.origin, '/stop_profile', { instances: ['D9'] });
  expect([unknown.status, unknown.json]).toMatchObject([404, { error: { code: 'instance_not_found', message: expect.stringContaining('P0, D0') } }]);
  expect((await post(harness.origin, '/stop_profile', { instances: 'D0' })).status).toBe(400);
});

test('a page in a browser of this machine cannot start profiling, unless it knows the admin key', async () => {
  await using prefill = await startUpstream(OK);
  await using harness = await startHarness({ prefill: [prefill.origin], admin: { apiKey: 'k', add: unasked, remove: unasked } });
  const start = (headers: Record<string, string>) => fetch(`${harness.origin}/start_profile`, { method: 'POST', headers: { origin: 'https://evil.example', ...headers } });
  const refused = await start({});
  expect([refused.status, await refused.json()]).toMatchObject([403, { error: { code: 'forbidden' } }]);
  expect(prefill.received).toEqual([]);
  expect((await start({ 'x-api-key': 'k' })).status).toBe(200);
  expect(prefill.received.map(({ url }) => url)).toEqual(['/start_profile']);
});

test('an answer to profiling that does not end is not read to its end', async () => {
  await using prefill = await startUpstream((res) => {
    res.writeHead(500);
    const pour = (): void => {
      while (!res.destroyed && res.write('x'.repeat(64 * 1024)));
    };
    res.on('drain', pour);
    pour();
  });
  await using harness = await startHarness({ prefill: [prefill.origin] });
  const { status, json } = await post(harness.origin, '/start_profile');
  expect([status, json]).toMatchObject([502, { instances: [{ outcome: 'failed', status: 500, message: 'x'.repeat(300) }] }]);
});

test('a profiler that fails makes the call fail, with every outcome', async () => {
  await using prefill = await startUpstream(OK);
  await using decode = await startUpstream(BROKEN);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const { status, json } = await post(harness.origin, '/start_profile', {});
  expect(status).toBe(502);
  expect(json).toMatchObject({ instances: [{ outcome: 'ok' }, { outcome: 'failed', status: 500, message: 'profiler is running already' }] });
});

test('when no instance has a profiler the call says so with 503', async () => {
  await using prefill = await startUpstream(MISSING);
  await using harness = await startHarness({ prefill: [prefill.origin] });
  const { status, json } = await post(harness.origin, '/start_profile');
  expect([status, json]).toMatchObject([503, { error: { code: 'no_profiler' }, prefill: null }]);
});

test("health carries the EPD proxy's words, and /healthcheck the toy proxy's counts", async () => {
  await using prefill = await startUpstream(OK);
  await using decode = await startUpstream(OK);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin, 'http://127.0.0.1:9'] });
  const down = harness.scheduler.instances[2];
  if (down === undefined) throw new Error('no second decode instance');
  harness.scheduler.excluded.set(down, 'down: refused');
  const health = await fetch(`${harness.origin}/health`);
  expect(health.status).toBe(200);
  expect(await health.json()).toMatchObject({ status: 'ok', proxy: 'healthy', encode_cluster: 'empty', prefill_cluster: 'healthy', decode_cluster: 'unhealthy' });
  await harness.proxy.setConnector('nixl-bidirectional');
  expect(await (await fetch(`${harness.origin}/health`)).json()).toMatchObject({ status: 'ok', cached_conversations: 0, evicted_stale: 0 });
  expect(await (await fetch(`${harness.origin}/healthcheck`)).json()).toEqual({ status: 'ok', prefill_instances: 1, decode_instances: 2 });
});
