/** The whole engine over simulated instances of one mode, and what the suite asks of them. */
import { createEngine, type Engine } from '#engine/engine.ts';
import type { ReceivedRequest } from '#engine/simulator/received-log.ts';
import { startSimInstance, type SimInstance } from '#engine/simulator/sim-instance.ts';
import { errorMessage } from '#shared/errors.ts';
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import type { LegKind, Role } from '#shared/vocabulary.ts';
import { waitFor } from '../engine/wait-for.ts';
import type { Stage } from './cases.ts';
import { post, type Answer, type PostOptions } from './client.ts';
import { roleOf, type Json, type Mode } from './modes.ts';

/** Real milliseconds: no lease may run out and no engine give up while a test runs, however slow the machine. */
const LEASE_MS = 120_000;
const TRANSFER_TIMEOUT_MS = 120_000;
/** For cases in which nothing hangs. */
const HEADERS_TIMEOUT_MS = 20_000;
const INFERENCE = /^\/(?:v1\/(?:chat\/)?completions|inference\/v1\/generate)$/u;
const RENDER = /\/render$/u;

export type Gate = (request: ReceivedRequest, sim: SimInstance) => Promise<void>;

export interface Received {
  readonly request: ReceivedRequest;
  readonly json: Json;
  readonly sim: SimInstance;
}

export interface Cluster extends AsyncDisposable {
  readonly engine: Engine;
  readonly sims: readonly SimInstance[];
  /** The first instance that serves a stage. */
  of(stage: Stage): SimInstance;
  /** Before any restart. */
  firstEngineId(sim: SimInstance): string | undefined;
  /** Holds requests of a stage back, on all instances. */
  setGate(stage: Stage, gate: Gate): void;
  /** Requests of a stage that came in complete, in their order; bodies parsed. */
  received(stage: LegKind): readonly Received[];
  post(path: string, body: Json, options?: PostOptions): Promise<Answer>;
  /** The record of a request, once it has ended. */
  row(requestId: string): Promise<RequestRow>;
  detail(row: RequestRow): Promise<RequestDetail>;
}

export interface ClusterOptions {
  /** A second instance of this role. */
  readonly spare?: Role;
  /** Default 0. */
  readonly maxRetries?: number;
  readonly headersTimeoutMs?: number;
  /** How long a decode engine waits for KV that does not come. Default: longer than a test. */
  readonly transferTimeoutMs?: number;
}

export async function startCluster(mode: Mode, { spare, maxRetries = 0, headersTimeoutMs = HEADERS_TIMEOUT_MS, transferTimeoutMs = TRANSFER_TIMEOUT_MS }: ClusterOptions = {}): Promise<Cluster> {
  const gates = new Map<Stage, Gate>();
  const sims: SimInstance[] = [];
  const engine = await createEngine({
    version: 'test', host: 'headless', proxy: { host: '127.0.0.1', port: 0 }, connector: mode.connector, maxRetries, capture: true,
    // Tables of the size of a test: the usual ones take longer to make than a test does.
    retention: { requests: 100, kvEvents: 100, blocks: 1000 }, timeouts: { headersMs: headersTimeoutMs }, protocol: { moriioHost: '127.0.0.1', moriioPort: 0, ...mode.settings },
  });
  const close = async (): Promise<void> => {
    await engine.close();
    await Promise.all(sims.map((sim) => sim.close()));
  };
  try {
    const shared = mode.sim();
    const registration = mode.connector === 'moriio' ? await registrationAddress(engine) : undefined;
    const roles = spare === undefined ? mode.roles : [...mode.roles, spare];
    for (const [index, role] of roles.entries()) {
      const sim: SimInstance = await startSimInstance({
        role, name: `${role}-${index}`, seed: 7, speed: 25, leaseMs: LEASE_MS, transferTimeoutMs, ...shared,
        ...(mode.ranks !== undefined && { dpSize: mode.ranks }),
        ...(registration !== undefined && { moriio: { ...shared.moriio, proxy: registration, pingMs: 100 } }),
        gate: async (request) => {
          const stage = stageOf(request, role);
          if (stage !== undefined) await gates.get(stage)?.(request, sim);
        },
      });
      sims.push(sim);
      if (registration === undefined) await join(engine, specOf(sim, mode));
    }
    await waitFor('the fleet can serve', async () => {
      const { instances } = await engine.call('state.get', {});
      return instances.length === roles.length && instances.every(({ state }) => state === 'up') && (await fetch(new URL('/health', engine.proxyAddress.url))).ok;
    });
  } catch (error) {
    await close();
    throw error;
  }
  const engineIds = new Map(sims.map((sim) => [sim, sim.engineId]));
  const serving = (stage: LegKind): readonly SimInstance[] => sims.filter(({ role }) => role === roleOf(stage, mode));
  return {
    engine,
    sims,
    of(stage) {
      const [first] = serving(stage);
      if (first === undefined) throw new Error(`${mode.name} has no ${stage} instance`);
      return first;
    },
    firstEngineId: (sim) => engineIds.get(sim),
    setGate: (stage, gate) => void gates.set(stage, gate),
    received: (stage) =>
      serving(stage)
        .flatMap((sim) => sim.received.map((request) => ({ request, sim })))
        .filter(({ request, sim }) => request.body.length > 0 && stageOf(request, sim.role) === stage)
        .sort((a, b) => a.request.atMs - b.request.atMs)
        .map(({ request, sim }) => ({ request, sim, json: JSON.parse(request.body.toString()) as Json })),
    post: (path, body, options) => post(engine.proxyAddress, path, body, options),
    row: (requestId) =>
      waitFor(`a record of ${requestId} that ended`, () => [...engine.requests.rows()].find((row) => row.requestId === requestId && row.state !== 'running')),
    detail: ({ id }) => engine.call('requests.get', { id }),
    [Symbol.asyncDispose]: close,
  };
}

/** A probe waits for some seconds, which may be too few for an engine on a machine that is busy with other tests. */
function join(engine: Engine, spec: ReturnType<typeof specOf>): Promise<true> {
  const add = (): Promise<true | undefined> =>
    engine.call('instance.add', spec).then(() => true as const, (error: unknown) => {
      if (errorMessage(error).includes('no answer in time')) return undefined;
      throw error;
    });
  return waitFor(`${spec.url} joins`, add);
}

function specOf({ role, url, bootstrapUrl }: SimInstance, { ranks }: Mode) {
  return { role, url, ...(ranks !== undefined && { dpSize: ranks }), ...(bootstrapUrl !== undefined && { bootstrapPort: Number(new URL(bootstrapUrl).port) }) };
}

function stageOf({ method, path }: ReceivedRequest, role: Role): Stage | undefined {
  const { pathname } = new URL(path, 'http://sim');
  if (method !== 'POST') return undefined;
  if (RENDER.test(pathname)) return 'render';
  if (!INFERENCE.test(pathname)) return undefined;
  return role === 'both' ? 'decode' : role;
}

async function registrationAddress(engine: Engine): Promise<string> {
  const { facts } = await engine.call('connector.status', {});
  const value = facts.find(({ title }) => title === 'Registration socket')?.value;
  if (typeof value !== 'string') throw new Error('the status names no registration socket');
  return value.replace('tcp://', '');
}
