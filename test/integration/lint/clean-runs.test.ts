/** Well-formed traffic of every protocol over simulated engines: the linter must be silent, or nobody listens to it. */
import { afterEach, describe, expect, it } from 'vitest';
import { createEngine, type Engine } from '#engine/engine.ts';
import type { EngineOptions } from '#engine/engine-options.ts';
import { CONNECTORS, type ConnectorName } from '#shared/vocabulary.ts';
import { waitFor } from '../engine/wait-for.ts';

const engines: Engine[] = [];
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close();
});

async function verdictsOf(connector: ConnectorName, demo: EngineOptions['demo']): Promise<unknown[]> {
  const engine = await createEngine({ version: 'test', host: 'headless', proxy: { port: 0 }, protocol: { moriioPort: 0 }, connector, demo: { requestsPerSecond: 40, ...demo } });
  engines.push(engine);
  const ended = (): number => engine.state().totals.ok;
  await waitFor('requests', () => ended() >= 12);
  const { findings } = await engine.call('findings.list', { all: true });
  // What a request itself rules out, or a conversation's next turn, is the connector's to say and no fault.
  return findings.filter(({ severity }) => severity !== 'info').map(({ code, severity, evidence }) => ({ code, severity, message: evidence[0]?.message }));
}

describe.each(CONNECTORS)('the traffic of %s', (connector) => {
  it('gives the linter no reason to speak', async () => {
    expect(await verdictsOf(connector, connector === 'aggregated' ? {} : { prefill: 2, decode: 2 })).toEqual([]);
  });

  it('neither does it over data-parallel ranks', async () => {
    expect(await verdictsOf(connector, { dpSize: 2, ...(connector === 'aggregated' ? { prefill: 0, decode: 0, both: 1 } : { prefill: 1, decode: 1 }) })).toEqual([]);
  });
});
