/** A stream that says nothing of what its engine stored for requests that pdscope saw is doubted; an idle one is not. */
import { expect, test } from 'vitest';
import { createEngine, type Engine } from '#engine/engine.ts';
import { startSimInstance } from '#engine/simulator/sim-instance.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { waitFor } from '../engine/wait-for.ts';
import { TestPublisher, freePort } from '../kv-events/publisher.ts';
import { MODEL, words } from './cache-cluster.ts';

function stream(engine: Engine): KvStreamView {
  const [found] = engine.state().streams;
  if (found === undefined) throw new Error('no stream');
  return found;
}

async function ask(engine: Engine, text: string): Promise<void> {
  const response = await fetch(`${engine.proxyAddress.url}/completions`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: MODEL, prompt: text, max_tokens: 1 }),
  });
  expect(response.status).toBe(200);
  await response.text();
}

/** Of a block of 16 tokens, told by the engine's publisher. */
const told = (hash: number): readonly unknown[] => ['BlockStored', [hash], null, Array.from({ length: 16 }, (_, at) => hash + at), 16, null, 'GPU'];

test('a stream is doubted when requests computed blocks and no batch came, until one comes', async () => {
  const port = await freePort();
  await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
  const sim = await startSimInstance({ name: 'B0', role: 'both', speed: 50, seed: 1 });
  const instances = [{ name: 'B0', role: 'both' as const, url: sim.url, kvEvents: { endpoint: `tcp://127.0.0.1:${port}` } }];
  const engine = await createEngine({ version: 'test', host: 'headless', proxy: { port: 0 }, connector: 'plain', instances });
  try {
    await waitFor('the instance is up and its stream connected', () => engine.state().instances.every(({ state }) => state === 'up') && stream(engine).state === 'silent');
    await publisher.batch(0, [told(1)], { ts: Date.now() / 1000 });
    await waitFor('a batch', () => stream(engine).batches === 1);
    expect(stream(engine)).toMatchObject({ state: 'live', confidence: 1 });

    await ask(engine, words(60, 'a'));
    await ask(engine, words(60, 'b'));
    const doubted = await waitFor('the stream is doubted', () => (stream(engine).confidence ?? 1) < 1 && stream(engine), 20_000);
    expect(doubted.reasons).toMatchObject([{ code: 'stores-untold', weight: 0.9 }]);
    expect(doubted.reasons?.[0]?.text).toMatch(/^No batch came since 2 requests computed \d\d whole blocks/);

    await publisher.batch(1, [told(100)], { ts: Date.now() / 1000 });
    await waitFor('the next batch', () => stream(engine).batches === 2);
    expect(stream(engine)).toMatchObject({ confidence: 1, reasons: [] });
  } finally {
    await engine.close();
    await sim.close();
  }
}, 40_000);
