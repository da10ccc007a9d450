/** KV events of an instance that nobody gave an endpoint for: the engine says itself where they are. */
import { expect, test } from 'vitest';
import { createEngine } from '#engine/engine.ts';
import { startSimInstance } from '#engine/simulator/sim-instance.ts';
import { waitFor } from './wait-for.ts';

test('every rank of an engine in development mode is followed without being told where', async () => {
  const sim = await startSimInstance({ role: 'both', dpSize: 2, kvEvents: {}, speed: 50 });
  const silent = await startSimInstance({ role: 'both', kvEvents: {}, devMode: false });
  const engine = await createEngine({ version: 'test', host: 'headless', proxy: { port: 0 }, connector: 'aggregated' });
  try {
    const added = await engine.call('instance.add', { role: 'both', url: sim.url });
    expect(added).toMatchObject({ dpSize: 2, dpSizeSource: 'server_info', kvEvents: { endpoint: sim.kvEvents?.endpoint, replayEndpoint: sim.kvEvents?.replayEndpoint } });
    expect(added.streams).toEqual(['b0/0', 'b0/1']);
    const quiet = await engine.call('instance.add', { role: 'both', url: silent.url });
    expect([quiet.kvEvents, quiet.streams]).toEqual([undefined, []]);
    await waitFor('both streams to be connected', () => engine.state().streams.every(({ state }) => state === 'silent'));
    const body = { model: sim.model, prompt: 'word '.repeat(100), max_tokens: 4 };
    for (const rank of ['0', '1']) {
      const answer = await fetch(`${sim.url}/v1/completions`, {
        method: 'POST', headers: { 'content-type': 'application/json', 'x-data-parallel-rank': rank }, body: JSON.stringify(body),
      });
      expect(answer.status).toBe(200);
    }
    await waitFor('events of both ranks', () => engine.state().streams.every(({ events }) => events > 0));
  } finally {
    await engine.close();
    await Promise.all([sim.close(), silent.close()]);
  }
});
