import { describe, expect, it } from 'vitest';
import type { Instance } from '#engine/fleet/instance.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { EngineBook } from '#engine/proxy/lint/engine-book.ts';
import { ReferenceBook } from '#engine/proxy/lint/reference-book.ts';
import type { Linter } from '#engine/proxy/lint/linter.ts';
import { withRanks } from '../../integration/proxy/harness.ts';
import { fakeInstance } from '../telemetry/support.ts';
import { ASK, codes, decodeInstance, HANDOFF, Lint, prefillInstance, USAGE } from './support.ts';

/** A request's prefill on `p`, answered with another engine id or request. */
function prefilled(linter: Linter, p: Instance, params: object, options: { readonly id?: string; readonly rank?: number } = {}) {
  const lint = new Lint('nixl', { linter, p, request: { id: options.id ?? 'req-1' } });
  const leg = options.rank === undefined ? {} : { rank: options.rank };
  lint.sendPrefill({ params: ASK, ...leg });
  return { lint, verdicts: lint.prefillAnswered({ ...HANDOFF, ...params }, USAGE, leg) };
}

describe('a reference to kept KV', () => {
  it('is good for one use', () => {
    let nowMs = 1000;
    const linter = createLinter({ now: () => nowMs });
    const { lint } = prefilled(linter, prefillInstance(), {});
    expect(lint.sendDecode({ params: HANDOFF })).toEqual([]);
    nowMs += 250;
    const again = new Lint('nixl', { linter, request: { id: 'req-2' } });
    again.sendPrefill({ params: ASK });
    const verdicts = again.sendDecode({ params: HANDOFF });
    expect(verdicts).toMatchObject([{ code: 'reference_reused', severity: 'error', message: 'The parameters for D0 were used 250 ms ago by request req-1.' }]);
    expect(verdicts[0]).not.toHaveProperty('effect');
    expect(lint.sendDecode({ params: { ...HANDOFF, remote_request_id: 'another' } })).toEqual([]);
  });

  it('is late after the lease, which the engine may set', () => {
    const late = (ms: number, leaseSeconds?: number, version = '0.29.0'): string[] => {
      let nowMs = 0;
      const linter = createLinter({ now: () => nowMs });
      const transfer = leaseSeconds === undefined ? undefined : { extraConfig: { kv_lease_duration: leaseSeconds } };
      const { lint } = prefilled(linter, prefillInstance(transfer, { version }), {});
      nowMs = ms;
      return codes(lint.sendDecode({ params: HANDOFF }));
    };
    expect(late(29_000)).toEqual([]);
    expect(late(31_000)).toEqual(['late_read']);
    expect(late(31_000, 60)).toEqual([]);
    expect(late(61_000, 60)).toEqual(['late_read']);
    expect(late(31_000, undefined, '0.15.0')).toEqual([]);
  });

  it('is forgotten when there are too many', () => {
    const book = new ReferenceBook(10);
    book.use('first', 'a', 0);
    for (let index = 0; index < 100; index += 1) book.use(`r${index}`, 'b', index);
    expect(book.size).toBeLessThanOrEqual(10);
    expect(book.use('first', 'c', 200)).toBeUndefined();
    expect(book.use('r99', 'c', 200)).toEqual({ requestId: 'b', agoMs: 101 });
  });

  it('stays known as long as it is touched', () => {
    const book = new ReferenceBook(10);
    book.given('kept', 0, 50);
    for (let index = 0; index < 100; index += 1) {
      book.use(`r${index}`, 'b', index);
      book.given('kept', 0, 50);
    }
    expect(book.overdue('kept', 60)).toEqual({ ageMs: 60, leaseMs: 50 });
    expect(book.overdue('kept', 50)).toBeUndefined();
  });
});

describe('engine ids', () => {
  it('of a previous life are noticed when the instance has told a new one', () => {
    const linter = createLinter();
    const p = prefillInstance();
    const { lint } = prefilled(linter, p, { remote_engine_id: 'old' });
    prefilled(linter, p, { remote_engine_id: 'new' }, { id: 'req-2' });
    const verdicts = lint.sendDecode({ params: { ...HANDOFF, remote_engine_id: 'old' } });
    expect(verdicts).toMatchObject([{ code: 'stale_engine_id', severity: 'error' }]);
    expect(verdicts[0]?.message).toContain('which P0 was before it restarted');
    expect(verdicts[0]).not.toHaveProperty('effect');
  });

  it('are given up when the server info names another, and taken back when it names the first again', () => {
    const linter = createLinter();
    const p = prefillInstance({ engineId: 'old' });
    const { lint } = prefilled(linter, p, { remote_engine_id: 'old_dp0' });
    p.transfer = { engineId: 'new' };
    new Lint('nixl', { linter, p }).sendPrefill({ params: ASK });
    const params = { ...HANDOFF, remote_engine_id: 'old_dp0' };
    expect(codes(lint.sendDecode({ params }))).toEqual(['stale_engine_id']);
    p.transfer = { engineId: 'old' };
    new Lint('nixl', { linter, p }).sendPrefill({ params: ASK });
    expect(codes(lint.sendDecode({ params: { ...params, remote_request_id: 'other' } }))).toEqual([]);
  });

  it('are current again when the instance itself tells them again, as after a rollback', () => {
    const linter = createLinter();
    const p = prefillInstance();
    for (const remote_engine_id of ['a', 'b']) prefilled(linter, p, { remote_engine_id });
    const { lint, verdicts } = prefilled(linter, p, { remote_engine_id: 'a' });
    expect(verdicts).toMatchObject([{ code: 'engine_id_conflict', severity: 'warning', message: 'P0 is engine a again, after b.' }]);
    expect(lint.sendDecode({ params: { ...HANDOFF, remote_engine_id: 'a' } })).toEqual([]);
  });

  it('shared by two instances, and of an instance that did not do the prefill', () => {
    const linter = createLinter();
    prefilled(linter, prefillInstance(), { remote_engine_id: 'e' });
    const other = fakeInstance('P1', 'prefill', { origin: 'http://10.0.0.3:8100' });
    const { verdicts } = prefilled(linter, other, { remote_engine_id: 'e' });
    expect(verdicts).toMatchObject([{ code: 'engine_id_conflict', message: 'P1 and P0 both are engine e.', instance: 'p1' }]);
    prefilled(linter, other, { remote_engine_id: 'f' });
    const { lint } = prefilled(linter, prefillInstance(), { remote_engine_id: 'g' });
    expect(lint.sendDecode({ params: { ...HANDOFF, remote_engine_id: 'f' } })).toMatchObject([{ code: 'engine_id_of_another', message: "The parameters for D0 name the engine of P1; prefill was P0's." }]);
  });

  it('may be those of one engine in two roles', () => {
    const linter = createLinter();
    prefilled(linter, prefillInstance(), { remote_engine_id: 'e' });
    const twin = fakeInstance('B0', 'both', { origin: prefillInstance().origin });
    const { lint, verdicts } = prefilled(linter, twin, { remote_engine_id: 'e' });
    expect(verdicts).toEqual([]);
    const { lint: first } = prefilled(linter, prefillInstance(), { remote_engine_id: 'e' }, { id: 'req-2' });
    expect(first.sendDecode({ params: { ...HANDOFF, remote_engine_id: 'e' } })).toEqual([]);
    expect(codes(lint.sendDecode({ params: { ...HANDOFF, remote_engine_id: 'e', remote_request_id: 'q' } }))).toEqual([]);
  });

  it('of an instance that left are forgotten', () => {
    let removed: ((instance: Instance) => void) | undefined;
    const linter = createLinter({ fleet: { onRemoved: (listener) => { removed = listener; return () => undefined; } } });
    const p = prefillInstance();
    const { lint } = prefilled(linter, p, { remote_engine_id: 'old' });
    prefilled(linter, p, { remote_engine_id: 'new' });
    removed?.(p);
    expect(lint.sendDecode({ params: { ...HANDOFF, remote_engine_id: 'old' } })).toEqual([]);
  });

  it('are kept in a bounded number', () => {
    const book = new EngineBook();
    const p = prefillInstance();
    for (let index = 0; index < 9000; index += 1) book.saw(p, 0, `engine-${index}`);
    expect(book.size).toBe(8192);
    expect(book.find('engine-8999')).toMatchObject({ isCurrent: true });
    expect(book.find('engine-0')).toBeUndefined();
    book.saw(p, 0, 'x'.repeat(257));
    expect(book.size).toBe(8192);
    book.forget(p.id);
    expect(book.size).toBe(0);
  });
});

describe('the side channel port', () => {
  it('is base + rank, learned from the ranks seen', () => {
    const linter = createLinter();
    const p = prefillInstance(undefined, withRanks(2));
    const seen = (rank: number, remote_port: number, id = `e_dp${rank}`) => prefilled(linter, p, { remote_engine_id: id, remote_port }, { rank }).verdicts;
    expect(seen(0, 5600)).toEqual([]);
    expect(seen(1, 5601)).toEqual([]);
    expect(seen(1, 5600)).toMatchObject([{ code: 'remote_port_wrong_for_rank', message: 'Rank 1 of P0 reports port 5600; after its other ranks it should be 5601.' }]);
    // After a restart everything may be elsewhere.
    expect(seen(0, 7000, 'f_dp0')).toEqual([]);
    expect(codes(seen(1, 7001, 'f_dp1'))).toEqual([]);
  });
});

describe('a data-parallel rank', () => {
  it('must exist; what nobody told pdscope is not judged', () => {
    const told = new Lint('plain', { d: decodeInstance(undefined, withRanks(2)) });
    expect(told.sendDecode({ headers: { 'x-data-parallel-rank': '1' } })).toEqual([]);
    expect(told.sendDecode({ headers: { 'x-data-parallel-rank': '2' } })).toMatchObject([
      { code: 'rank_out_of_range', severity: 'error', message: 'X-data-parallel-rank is 2; D0 has 2 ranks, counted from 0. It answers 400.' },
    ]);
    expect(new Lint('plain').sendDecode({ headers: { 'x-data-parallel-rank': '7' } })).toEqual([]);
  });
});
