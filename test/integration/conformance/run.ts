/** One test of the suite: a cluster of its own, one request, and everything that must be true afterwards. */
import { expect } from 'vitest';
import type { SimInstance, SimStats } from '#engine/simulator/sim-instance.ts';
import type { Role } from '#shared/vocabulary.ts';
import { waitFor } from '../engine/wait-for.ts';
import { arrange } from './arrange.ts';
import { expectedOf, type Case } from './cases.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { expectLegsAsSent, type Sent } from './legs.ts';
import { legKinds, roleOf, type ConformanceApi, type Mode } from './modes.ts';
import { expectOutcomes } from './outcomes.ts';
import { clientBody, expectComplete, MEDIA_ITEMS, nextTurn, REQUEST_ID, textOf, type ClientBody } from './requests.ts';
import { expectSeen, isWhole } from './seen.ts';
import { expectTimeline, expectTimesInOrder } from './timeline.ts';

/** Of cases in which an instance hangs. */
const HANG_HEADERS_MS = 1000;
/** Of cases in which decode waits for KV that does not come, until its engine gives up: longer than all that does come takes. */
const IN_VAIN_MS = 4000;
/** More than the tokens that reading them from another instance must gain (`kv_recompute_threshold`, 64). */
const FIRST_TURN_TOKENS = 100;

export interface RunInit {
  readonly mode: Mode;
  readonly api: ConformanceApi;
  readonly isStream: boolean;
  /** What the model says to a request when nobody hands anything over. */
  readonly rightText: (request: ClientBody) => Promise<string>;
}

/** `each` undefined: nothing goes wrong. Resolves with what engines still hold in the end, which must be nothing. */
export async function runConformance(init: RunInit, each?: Case): Promise<Held> {
  const { mode } = init;
  await using cluster = await startCluster(mode, each === undefined ? {} : optionsOf(each, mode));
  const sent = { ...init, request: await prepare(cluster, init) };
  if (each === undefined) await expectAllWell(cluster, sent);
  else await expectCase(cluster, sent, each);
  expect(cluster.sims.map((sim) => [sim.name, sim.death, sim.stats().corruptedLoads])).toEqual(cluster.sims.map((sim) => [sim.name, undefined, 0]));
  return released(cluster, each === undefined ? keptOnPurpose(cluster, mode) : cluster.sims);
}

type Run = RunInit & Sent;

/** Requests one after the other reach every rank of both sides, each with the parameters of its own ranks. */
export async function runOverRanks(init: RunInit, ranks: number): Promise<Held> {
  const { mode, isStream, rightText } = init;
  await using cluster = await startCluster(mode);
  const request = await prepare(cluster, init);
  const used = { prefill: new Set<number>(), decode: new Set<number>() };
  for (let n = 0; n < ranks; n++) {
    for (const sim of cluster.sims) sim.clearReceived();
    const answer = await cluster.post(request.path, request.body, { requestId: REQUEST_ID });
    expectComplete(answer, isStream);
    expect(textOf(answer)).toBe(await rightText(request));
    expectLegsAsSent(cluster, { ...init, request });
    for (const kind of ['prefill', 'decode'] as const) for (const { request: { headers } } of cluster.received(kind)) used[kind].add(Number(headers['x-data-parallel-rank']));
  }
  const all = new Set(Array.from({ length: ranks }, (_, rank) => rank));
  expect(used).toEqual({ prefill: all, decode: all });
  return released(cluster, keptOnPurpose(cluster, mode));
}

async function expectAllWell(cluster: Cluster, sent: Run): Promise<void> {
  const { mode, api, isStream, request, rightText } = sent;
  const before = await tokensFetched(cluster);
  const answer = await cluster.post(request.path, request.body, { requestId: REQUEST_ID });
  expectComplete(answer, isStream);
  expect(textOf(answer)).toBe(await rightText(request));
  const after = await tokensFetched(cluster);
  expect(cluster.sims.filter((_, index) => Number(after[index]) > Number(before[index])).map(({ role }) => role)).toEqual(fetchingRoles(mode));
  const row = await cluster.row(REQUEST_ID);
  expect(row).toMatchObject({ state: 'ok', status: 200, retries: 0, isStream, connector: mode.connector });
  expect(row.findings).toBeUndefined();
  const detail = await cluster.detail(row);
  const kinds = legKinds(mode, api, MEDIA_ITEMS);
  const derender = mode.isTokenDriven === true && !isStream ? (['render'] as const) : [];
  expect(detail.legs.map(({ kind, outcome }) => [kind, outcome])).toEqual([...kinds, ...derender].map((kind) => [kind, 'ok']));
  for (const kind of new Set(kinds)) expect([kind, cluster.received(kind).length]).toEqual([kind, kinds.filter((other) => other === kind).length]);
  expectLegsAsSent(cluster, sent);
  const isPassedOn = mode.isTokenDriven !== true && mode.isReadWhole?.(isStream) !== true;
  if (isPassedOn) expect(answer.text).toBe(detail.legs.find(({ kind }) => kind === 'decode')?.responseBody?.text);
  expectTimeline(detail, mode);
}

/** Prompt tokens that each instance has got from others, by its own count: the engines' word that a handoff came about. */
function tokensFetched(cluster: Cluster): Promise<readonly number[]> {
  return Promise.all(
    cluster.sims.map(async ({ url }) => {
      const page = await (await fetch(`${url}/metrics`)).text();
      const samples = page.matchAll(/^vllm:prompt_tokens_by_source_total\{[^}]*source="external_kv_transfer"[^}]*\} (\S+)$/gmu);
      return [...samples].reduce((sum, [, value]) => sum + Number(value), 0);
    }),
  );
}

/** Decode reads what prefill computed; in a conversation prefill has read decode's blocks of the last turn before. */
function fetchingRoles({ legs, connector }: Mode): readonly Role[] {
  if (legs === 'one') return [];
  return connector === 'nixl-bidirectional' ? ['prefill', 'decode'] : ['decode'];
}

async function expectCase(cluster: Cluster, sent: Run, each: Case): Promise<void> {
  const { mode, isStream, request, rightText } = sent;
  const expected = expectedOf(each, mode, isStream);
  const leaving = new AbortController();
  const holding = { isOver: false };
  await arrange(cluster, each, { mode, leaving, holding });
  const answer = await cluster.post(request.path, request.body, {
    requestId: REQUEST_ID,
    signal: leaving.signal,
    ...(each.leavesStreaming === true && { onChunk: () => leaving.abort() }),
  });
  expectSeen(answer, expected, { each, isStream });
  const isRight = expected.kind === 'repeated' || expected.kind === 'right' || (expected.kind === 'right-or-refused' && isWhole(answer));
  if (isRight) {
    expectComplete(answer, isStream);
    expect(textOf(answer)).toBe(await rightText(request));
  }
  const row = await cluster.row(REQUEST_ID);
  expect(row.state).toBe(expected.kind === 'left' ? 'aborted' : isRight ? 'ok' : 'error');
  const detail = await cluster.detail(row);
  expectTimesInOrder(detail);
  expectOutcomes({ cluster, detail, answer, sent, each, expected });
  expectLegsAsSent(cluster, sent);
  if (each.hold !== undefined && each.hold !== 'for-ever') await waitFor('what the leg was held for', () => holding.isOver);
  await waitFor('all engines to stop', () => cluster.sims.every((sim) => isIdle(sim)));
  if (expected.kind === 'left') {
    await waitFor(`the ${each.on} instance to see its client leave`, () => cluster.received(each.on).some(({ request: { abortedAtMs } }) => abortedAtMs !== undefined));
  }
}

/** The request under test; before it the first turns, where the mode keeps something between requests. */
async function prepare(cluster: Cluster, { mode, api, isStream }: RunInit): Promise<ClientBody> {
  let body = clientBody(mode, api, { isStream });
  for (let turn = 1; turn <= (mode.firstTurns ?? 0); turn++) {
    const { path, body: asked } = clientBody(mode, api, { isStream: false, maxTokens: FIRST_TURN_TOKENS });
    const first = { path, body: { ...asked, ignore_eos: true } };
    const answer = await cluster.post(first.path, first.body, { requestId: `turn-${turn}` });
    expectComplete(answer, false, FIRST_TURN_TOKENS);
    expect((await cluster.row(`turn-${turn}`)).state).toBe('ok');
    if (turn === mode.firstTurns) body = nextTurn(body, answer);
  }
  for (const sim of cluster.sims) sim.clearReceived();
  return body;
}

function optionsOf({ hold, retry, on }: Case, mode: Mode): Parameters<typeof startCluster>[1] {
  return {
    ...(hold === 'for-ever' && { headersTimeoutMs: HANG_HEADERS_MS }),
    ...(hold === 'prefill-restarts' && { transferTimeoutMs: IN_VAIN_MS }),
    ...(retry !== undefined && { maxRetries: 1 }),
    ...(retry === 'on-other' && { spare: roleOf(on, mode) }),
  };
}

export interface Held {
  readonly usedBlocks: number;
  readonly pinnedBlocks: number;
  readonly leases: number;
}

export const NOTHING_HELD: Held = { usedBlocks: 0, pinnedBlocks: 0, leases: 0 };

/** Instances that keep blocks when all went well: decode instances, for the conversation's next turn. */
function keptOnPurpose(cluster: Cluster, { connector }: Mode): readonly SimInstance[] {
  return connector === 'nixl-bidirectional' ? [cluster.of('decode')] : [];
}

/**
 * What is held when nothing runs any more. Leases of `expiring` end now, which takes longer than a test otherwise: blocks
 * that nobody came for are their engine's to free. All others must have been freed by whoever read them.
 */
async function released(cluster: Cluster, expiring: readonly SimInstance[]): Promise<Held> {
  await waitFor('all engines to stop', () => cluster.sims.every((sim) => isIdle(sim)));
  for (const sim of expiring) await sim.setFault('drop-lease');
  const held = (): Held => {
    const stats = cluster.sims.map((sim) => sim.stats());
    const sum = (read: (one: SimStats) => number): number => stats.reduce((total, one) => total + read(one), 0);
    return { usedBlocks: sum(({ blocks, freeBlocks }) => blocks - freeBlocks), pinnedBlocks: sum(({ pinnedBlocks }) => pinnedBlocks), leases: sum(({ leases }) => leases) };
  };
  await waitFor('no block to be held', () => Object.values(held()).every((count) => count === 0)).catch(() => undefined);
  return held();
}

function isIdle(sim: SimInstance): boolean {
  const { running, loading, waiting } = sim.stats();
  return running === 0 && loading === 0 && waiting === 0;
}
