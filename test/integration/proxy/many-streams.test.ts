/** A thousand streams at once: every one whole, in order and its own. */
import { request } from 'node:http';
import { expect, test } from 'vitest';
import { startHarness, until } from './harness.ts';
import { json, startUpstream } from './scripted-upstream.ts';

const STREAMS = 1000;
const CHUNKS = 6;

test('1,000 concurrent streams, none lost and none mixed up', async () => {
  await using prefill = await startUpstream(json('{"choices":[],"kv_transfer_params":{"remote_engine_id":"e1"}}'));
  const waiting: (() => void)[] = [];
  await using decode = await startUpstream(async (res, { json: body }) => {
    const name = String(body['prompt']);
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(`data: {"choices":[{"index":0,"text":"${name}:0","finish_reason":null}]}\n\n`);
    // All streams are open before any goes on.
    await new Promise<void>((resolve) => waiting.push(resolve));
    for (let chunk = 1; chunk < CHUNKS; chunk++) {
      res.write(`data: {"choices":[{"index":0,"text":"${name}:${chunk}","finish_reason":null}]}\n\n`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    res.end(`data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}\n\ndata: [DONE]\n\n`);
  });
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'nixl', policy: 'power-of-two' });
  const answers = Promise.all(Array.from({ length: STREAMS }, (_, index) => streamOf(harness.origin, `s${index}`)));
  await Promise.race([answers, until(() => waiting.length === STREAMS)]);
  expect(harness.scheduler.inFlight).toBe(STREAMS);
  for (const go of waiting) go();
  const texts = await answers;
  texts.forEach((text, index) => {
    const expected = Array.from({ length: CHUNKS }, (_, chunk) => `s${index}:${chunk}`);
    expect([...text.matchAll(/"text":"(s[^"]+)"/g)].map((match) => match[1])).toEqual(expected);
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  });
  await until(() => harness.tracer.requests.every(({ state }) => state === 'ok'));
  expect(harness.tracer.requests.every(({ events }) => events === CHUNKS + 2)).toBe(true);
  expect(harness.scheduler.inFlight).toBe(0);
});

function streamOf(origin: string, prompt: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const req = request(`${origin}/v1/completions`, { method: 'POST', agent: false, headers: { 'content-type': 'application/json' } }, (res) => {
      let text = '';
      res.on('data', (chunk: Buffer) => void (text += chunk.toString()));
      res.on('end', () => resolve(text));
      res.on('error', reject);
    });
    req.on('error', reject);
    req.end(JSON.stringify({ model: 'm', prompt, stream: true }));
  });
}
