/**
 * The conformance suite of one mode: {chat, completions} x {stream, whole} x {everything well, and each case of cases.ts
 * that can happen}. Each test has instances and an engine of its own.
 */
import { describe, expect, test } from 'vitest';
import type { SimInstance } from '#engine/simulator/sim-instance.ts';
import { waitFor } from '../engine/wait-for.ts';
import { applies, CASES, type Broken, type Case } from './cases.ts';
import { RELEASE_MS, startCluster, type Answer, type Cluster } from './cluster.ts';
import { expectLegsAsSent } from './legs.ts';
import { legKinds, type ConformanceApi, type Mode } from './modes.ts';
import { clientBody, eventsOf, expectComplete, MEDIA_ITEMS, nextTurn, textOf, type ClientBody } from './requests.ts';
import { expectTimeline } from './timeline.ts';

const REQUEST_ID = 'conformance-1';

export function describeConformance(mode: Mode): void {
  describe.each(['chat', 'completions'] as const)(`${mode.name}, %s`, (api) => {
    describe.each([['streaming', true], ['whole', false]] as const)('%s', (_name, isStream) => {
      test('all well: the right answer, legs as the protocol wants them, nothing pinned, an exact timeline', () => runWell(mode, api, isStream));
      const cases = CASES.filter((each) => applies(each, mode, isStream));
      test.each(cases.map((each) => [each.name, each.expected.kind, each] as const))('%s: %s', (_what, _kind, each) => runCase(mode, api, isStream, each));
    });
  });
}

async function runWell(mode: Mode, api: ConformanceApi, isStream: boolean): Promise<void> {
  await using cluster = await startCluster(mode);
  const request = await prepare(cluster, mode, api, isStream);
  const answer = await cluster.post(request.path, request.body, { requestId: REQUEST_ID });
  expectComplete(answer, isStream);
  expect(textOf(answer)).toBe(await directText(cluster, request));
  expectLegsAsSent(cluster, mode, api, request);
  const row = await cluster.row(REQUEST_ID);
  expect(row).toMatchObject({ state: 'ok', status: 200, retries: 0, isStream, connector: mode.connector });
  expect(row.findings).toBeUndefined();
  const detail = await cluster.detail(row);
  expect(detail.legs.map(({ kind, outcome }) => [kind, outcome])).toEqual(legKinds(mode, api, MEDIA_ITEMS).map((kind) => [kind, 'ok']));
  expectTimeline(detail, mode);
  await expectReleased(cluster);
}

async function runCase(mode: Mode, api: ConformanceApi, isStream: boolean, each: Case): Promise<void> {
  await using cluster = await startCluster(mode);
  const request = await prepare(cluster, mode, api, isStream);
  const target = each.on === 'prefill' ? cluster.of('prefill') : cluster.answering;
  const leaving = new AbortController();
  await arrange(cluster, each, target, leaving);
  const answer = await cluster.post(request.path, request.body, {
    requestId: REQUEST_ID,
    signal: leaving.signal,
    ...(each.leavesStreaming === true && { onChunk: () => leaving.abort() }),
  });
  expectSeen(answer, each.expected, { mode, api, isStream });
  if (each.expected.kind === 'right-or-refused' && answer.status === 200) expect(textOf(answer)).toBe(await directText(cluster, request));
  const row = await cluster.row(REQUEST_ID);
  const isWell = each.expected.kind === 'right-or-refused' && answer.status === 200;
  expect(row.state).toBe(each.expected.kind === 'left' ? 'aborted' : isWell ? 'ok' : 'error');
  if (row.state === 'error' && each.expected.kind !== 'right-or-refused') expect(row.error).toMatchObject({ leg: each.on, message: expect.stringContaining(each.on) });
  const { legs } = await cluster.detail(row);
  expect(legs.filter(({ outcome }) => outcome === 'running')).toEqual([]);
  if (each.expected.kind === 'left') await expectStopped(cluster, target);
  expect(cluster.sims.map((sim) => [sim.name, sim.death, sim.stats().corruptedLoads])).toEqual(cluster.sims.map((sim) => [sim.name, undefined, 0]));
  await expectReleased(cluster);
}

/** The request under test; before it the first turn, where the mode keeps something between requests. */
async function prepare(cluster: Cluster, mode: Mode, api: ConformanceApi, isStream: boolean): Promise<ClientBody> {
  const body = clientBody(mode, api, isStream);
  if (mode.hasFirstTurn !== true) return body;
  const first = clientBody(mode, api, false);
  const answer = await cluster.post(first.path, first.body);
  expectComplete(answer, false);
  await cluster.row(`${[...cluster.engine.requests.rows()][0]?.requestId ?? ''}`);
  for (const sim of cluster.sims) sim.clearReceived();
  return nextTurn(body, answer);
}

async function arrange(cluster: Cluster, each: Case, target: SimInstance, leaving: AbortController): Promise<void> {
  if (each.fault !== undefined) await target.setFault(each.fault, each.amount);
  if (each.gate === 'hang') cluster.setGate(target, () => new Promise(() => undefined));
  if (each.gate === 'client-leaves') {
    cluster.setGate(target, async (request) => {
      leaving.abort();
      await waitFor('the leg to be cancelled', () => request.abortedAtMs !== undefined);
    });
  }
  if (each.gate === 'restart-prefill') {
    const prefill = cluster.of('prefill');
    cluster.setGate(target, async () => {
      await waitFor('prefill to be through', () => prefill.stats().running === 0 && prefill.stats().inFlight === 0);
      await prefill.restart();
    });
  }
}

function expectSeen(answer: Answer, expected: Broken, { mode, api, isStream }: { readonly mode: Mode; readonly api: ConformanceApi; readonly isStream: boolean }): void {
  const isReadWhole = mode.isReadWhole?.(api, isStream) === true;
  if (expected.kind === 'left') {
    expect(answer.isCut).toBe(true);
  } else if (expected.kind === 'refused' || (expected.kind === 'broken' && isReadWhole)) {
    const status = expected.kind === 'refused' ? expected.status : 502;
    expect({ status: answer.status, isCut: answer.isCut }).toEqual({ status, isCut: false });
    const code = expected.kind === 'refused' ? expected.code : undefined;
    expect(JSON.parse(answer.text)).toMatchObject({ error: { message: expect.any(String) }, pdscope: { request_id: REQUEST_ID, ...(code !== undefined && { code }) } });
  } else if (expected.kind === 'broken') {
    expect(answer.status).toBe(200);
    if (!isStream) {
      expect(answer.isCut).toBe(true);
      return;
    }
    const { objects, isDone } = eventsOf(answer.text);
    expect({ isDone, last: objects.at(-1) }).toMatchObject({ isDone: false, last: { error: { message: expect.stringContaining('decode leg') } } });
    expect(objects.length).toBeGreaterThan(1);
  } else if (answer.status === 200) {
    expectComplete(answer, isStream);
  } else {
    expect(answer.status).toBeGreaterThanOrEqual(500);
    expect(JSON.parse(answer.text)).toMatchObject({ error: { message: expect.any(String) } });
  }
}

/** What the answering instance says by itself to the same request. */
async function directText(cluster: Cluster, { path, body }: ClientBody): Promise<string> {
  const { answering } = cluster;
  await answering.setFault('none');
  cluster.setGate(answering, undefined);
  const response = await fetch(`${answering.url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return textOf({ status: 200, text, contentType: response.headers.get('content-type') ?? '', isCut: false, hasLeft: false });
}

async function expectStopped(cluster: Cluster, target: SimInstance): Promise<void> {
  await waitFor('engines to stop', () => cluster.sims.every((sim) => sim.stats().running === 0 && sim.stats().loading === 0 && sim.stats().waiting === 0));
  expect(cluster.received(target).some(({ request }) => request.abortedAtMs !== undefined)).toBe(true);
}

async function expectReleased(cluster: Cluster): Promise<void> {
  const held = () => cluster.sims.map((sim) => [sim.name, sim.stats().pinnedBlocks, sim.stats().leases]);
  await waitFor('no block to be pinned', () => held().every(([, blocks, leases]) => blocks === 0 && leases === 0), RELEASE_MS).catch(() => undefined);
  expect(held()).toEqual(cluster.sims.map((sim) => [sim.name, 0, 0]));
}
