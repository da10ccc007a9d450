/** An engine over simulated instances whose KV events it follows, for tests of the cache operations. */
import { createEngine, type Engine } from '#engine/engine.ts';
import type { EngineOptions } from '#engine/engine-options.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import type { MissKind, MissReport } from '#shared/cache.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { RequestRow } from '#shared/request.ts';
import { waitFor } from '../engine/wait-for.ts';

export const MODEL = 'sim/Qwen3-8B';

export interface CacheCluster extends AsyncDisposable {
  readonly engine: Engine;
  sim(name: string): SimInstance;
  id(name: string): InstanceId;
  /** Sends a request, and waits for its record and for the events that were published meanwhile. */
  send(path: string, body: object): Promise<RequestRow>;
  chat(body: object): Promise<RequestRow>;
  /** What is found out about a request. */
  why(row: RequestRow): Promise<MissReport>;
}

export type SimsByName = Readonly<Record<string, SimInstanceOptions>>;

export async function startCacheCluster(sims: SimsByName, options: Partial<EngineOptions> = {}): Promise<CacheCluster> {
  const running = new Map<string, SimInstance>();
  for (const [name, sim] of Object.entries(sims)) running.set(name, await startSimInstance({ speed: 50, kvEvents: {}, name, seed: running.size + 1, ...sim }));
  const instances = Array.from(running, ([name, sim]) => ({ name, role: sim.role, url: sim.url, ...(sim.kvEvents !== undefined && { kvEvents: sim.kvEvents }) }));
  const engine = await createEngine({ version: 'test', host: 'headless', proxy: { port: 0 }, instances, ...options });
  await waitFor('all instances are up and their streams are connected', () => {
    const { instances: views, streams } = engine.state();
    return views.every(({ state }) => state === 'up') && streams.every(({ state }) => state === 'silent' || state === 'live');
  });
  // A stream that is connected may not be subscribed yet: what is published until then goes past it.
  await waitFor('all streams are subscribed', () => [...running.values()].every((sim) => sim.publish.subscriptions >= (sim.kvEvents?.ranks ?? 0)));
  const hasAllEvents = (): boolean =>
    Array.from(running).every(([name, sim]) => {
      const streams = engine.state().streams.filter(({ instanceName }) => instanceName === name);
      return streams.length === 0 || streams.reduce((sum, { lastSeq = -1 }) => sum + lastSeq + 1, 0) >= sim.publish.batches;
    });
  const sim = (name: string): SimInstance => {
    const found = running.get(name);
    if (found === undefined) throw new Error(`no simulated instance ${name}`);
    return found;
  };
  let sent = 0;
  const send = async (path: string, body: object): Promise<RequestRow> => {
    sent += 1;
    const requestId = `t-${sent}`;
    const response = await fetch(`${new URL(engine.proxyAddress.url).origin}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': requestId },
      body: JSON.stringify({ model: MODEL, ...body }),
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${text}`);
    const row = await waitFor(`request ${requestId} is recorded`, () => Array.from(engine.requests.rows()).find((one) => one.requestId === requestId && one.state !== 'running'));
    await waitFor(`the events of ${requestId} are in`, hasAllEvents);
    return row;
  };
  return {
    engine,
    sim,
    id: (name) => {
      const found = engine.state().instances.find((instance) => instance.name === name);
      if (found === undefined) throw new Error(`no instance ${name}`);
      return found.id;
    },
    send,
    chat: (body) => send('/v1/chat/completions', { max_tokens: 2, ...body }),
    why: (row) => waitFor(`request ${row.requestId} is explained`, async () => {
      const report = await engine.call('requests.why', { id: row.id });
      return report.state === 'unavailable' && report.reason?.includes('ask again') === true ? undefined : report;
    }),
    async [Symbol.asyncDispose]() {
      await engine.close();
      for (const each of running.values()) await each.close();
    },
  };
}

/** `words(60, 'w')`: distinct words, a few tokens each. */
export function words(count: number, stem: string): string {
  return Array.from({ length: count }, (_, index) => `${stem}${index}`).join(' ');
}

/** Kinds of a report's ranges, in order. */
export function kinds({ ranges }: MissReport): MissKind[] {
  return ranges.map(({ kind }) => kind);
}
