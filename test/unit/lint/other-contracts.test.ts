import { describe, expect, it } from 'vitest';
import type { Verdict } from '#shared/findings.ts';
import { withRanks } from '../../integration/proxy/harness.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { ASK, codes, decodeInstance, fields, HANDOFF, Lint, type LegInit, type Params, prefillInstance, USAGE } from './support.ts';

interface Row {
  readonly code: string;
  readonly effect?: Verdict['effect'];
  readonly prefill?: LegInit;
  readonly decode?: LegInit;
  readonly options?: ConstructorParameters<typeof Lint>[1];
  readonly says: RegExp;
}

const { remote_block_ids: _ids, remote_blocks_expiry_time: _expiry, ...REST } = HANDOFF;
const PUSH: Params = { ...REST, transfer_mode: 'push', pp_size: 1 };

describe('nixl-push', () => {
  const run = ({ prefill, decode, options }: Partial<Row>): readonly Verdict[] => {
    const lint = new Lint('nixl-push', options);
    lint.sendPrefill({ params: ASK, ...prefill });
    return lint.sendDecode({ params: PUSH, ...decode });
  };

  it('is silent when all is well', () => {
    const lint = new Lint('nixl-push');
    expect(lint.sendPrefill({ params: ASK })).toEqual([]);
    expect(lint.prefillAnswered({ ...HANDOFF, transfer_mode: 'push' }, USAGE)).toEqual([]);
    // The connector reports this one itself, and runs decode alone.
    expect(new Lint('nixl-push').prefillAnswered(HANDOFF, USAGE)).toEqual([]);
    expect(lint.sendDecode({ params: PUSH })).toEqual([]);
  });

  it.each<Row>([
    ...['remote_engine_id', 'remote_host', 'remote_port', 'tp_size'].map((field): Row => ({
      code: 'push_incomplete', effect: 'kills', decode: { params: fields(PUSH, { without: field }) }, says: new RegExp(`lack ${field}\\.`),
    })),
    { code: 'push_with_blocks', decode: { params: { ...PUSH, remote_block_ids: [[1, 2]] } }, says: /remote_block_ids \(\[\[1,2\]\]\)/ },
    { code: 'transfer_mode_mismatch', effect: 'hangs', decode: { params: { ...PUSH, transfer_mode: 'pull' } }, says: /transfer_mode is pull; this protocol is push/ },
    { code: 'request_id_differs', effect: 'hangs', decode: { headers: { 'x-request-id': 'other' } }, says: /req-1 for prefill and other for decode/ },
    { code: 'request_id_differs', effect: 'hangs', decode: { path: '/v1/completions' }, says: /Prefill was sent to the client's path, decode to \/v1\/completions/ },
    { code: 'wrong_kv_connector', options: { d: decodeInstance({ kvConnector: 'NixlConnector' }) }, says: /D0 runs NixlConnector; this protocol needs NixlPushConnector/ },
  ])('$code: $says', ({ code, effect, says, ...row }) => {
    const verdicts = run(row);
    expect(codes(verdicts)).toEqual([code]);
    expect(verdicts[0]?.effect).toBe(effect);
    expect(verdicts[0]?.message).toMatch(says);
  });

  it('lets a decode leg without parameters be: it computes the prompt itself', () => {
    expect(run({ decode: { params: undefined, headers: { 'x-request-id': 'other' } }, options: { p: prefillInstance({ blockSize: 16 }), d: decodeInstance({ blockSize: 32 }) } })).toEqual([]);
  });

  it('compares the ids of one pair, not of an earlier one', () => {
    const lint = new Lint('nixl-push');
    lint.sendPrefill({ params: ASK, headers: { 'x-request-id': 'one' } });
    lint.sendDecode({ params: PUSH, headers: { 'x-request-id': 'one' } });
    expect(lint.sendPrefill({ params: ASK, headers: { 'x-request-id': 'two' } })).toEqual([]);
    expect(lint.sendDecode({ params: PUSH, headers: { 'x-request-id': 'two' } })).toEqual([]);
  });

  it('notices it also when decode was sent first', () => {
    const lint = new Lint('nixl-push');
    expect(lint.sendDecode({ params: PUSH, headers: { 'x-request-id': 'one' } })).toEqual([]);
    expect(codes(lint.sendPrefill({ params: ASK, headers: { 'x-request-id': 'two' } }))).toEqual(['request_id_differs']);
  });
});

describe('nixl-bidirectional', () => {
  const TURN: Params = { ...HANDOFF, do_remote_prefill: false, do_remote_decode: true, remote_engine_id: 'd1', remote_request_id: 'turn-1', remote_host: '10.0.0.2' };

  it("relays a decode instance's blocks once, within their time", () => {
    let nowMs = 0;
    const linter = createLinter({ now: () => nowMs });
    const first = new Lint('nixl-bidirectional', { linter });
    expect(first.sendPrefill({ params: ASK })).toEqual([]);
    expect(first.decodeAnswered(TURN, USAGE)).toEqual([]);
    nowMs = 400_000;
    const second = new Lint('nixl-bidirectional', { linter, request: { id: 'req-2' } });
    expect(second.sendPrefill({ params: TURN })).toEqual([]);
    nowMs = 490_000;
    expect(codes(new Lint('nixl-bidirectional', { linter, request: { id: 'req-3' } }).sendPrefill({ params: TURN }))).toEqual(['reference_reused', 'late_read']);
  });

  it.each<Row>([
    { code: 'turn_reference_incomplete', prefill: { params: fields(TURN, { without: 'remote_host' }) }, says: /lack remote_host/ },
    { code: 'bidirectional_off', options: { p: prefillInstance({ extraConfig: {} }) }, says: /P0 was started without bidirectional_kv_xfer/ },
  ])('$code', ({ code, prefill, options, says }) => {
    const verdicts = new Lint('nixl-bidirectional', options).sendPrefill({ params: TURN, ...prefill });
    expect(codes(verdicts)).toEqual([code]);
    expect(verdicts[0]?.message).toMatch(says);
  });

  it('notices blocks of a decode instance that restarted', () => {
    const linter = createLinter();
    const lint = new Lint('nixl-bidirectional', { linter });
    lint.decodeAnswered(TURN);
    lint.decodeAnswered({ ...TURN, remote_engine_id: 'd2', remote_request_id: 'turn-2' });
    expect(codes(lint.sendPrefill({ params: TURN }))).toEqual(['stale_engine_id']);
  });
});

describe('mooncake', () => {
  const P_ASK: Params = { do_remote_decode: true, do_remote_prefill: false, transfer_id: 'xfer-1' };
  const D_ASK: Params = { do_remote_decode: false, do_remote_prefill: true, transfer_id: 'xfer-1', remote_engine_id: 'e1', remote_bootstrap_addr: 'http://10.0.0.1:8998' };

  const run = ({ prefill, decode, options }: Partial<Row>): readonly Verdict[] => {
    const lint = new Lint('mooncake', options);
    lint.sendPrefill({ params: P_ASK, ...prefill });
    return lint.sendDecode({ params: D_ASK, ...decode });
  };

  it('is silent when all is well, and about the empty prefill answer', () => {
    const lint = new Lint('mooncake');
    expect(lint.sendPrefill({ params: P_ASK })).toEqual([]);
    expect(lint.sendDecode({ params: D_ASK })).toEqual([]);
    expect(lint.prefillAnswered('null', USAGE)).toEqual([]);
  });

  it.each<Row>([
    ...['transfer_id', 'remote_engine_id', 'remote_bootstrap_addr'].map((field): Row => ({
      code: 'transfer_incomplete', effect: 'hangs', decode: { params: fields(D_ASK, { without: field }) }, says: new RegExp(`lack ${field}\\.`),
    })),
    { code: 'transfer_id_differs', effect: 'hangs', decode: { params: { ...D_ASK, transfer_id: 'xfer-2' } }, says: /xfer-1 for prefill and xfer-2 for decode/ },
    { code: 'bootstrap_addr_local', decode: { params: { ...D_ASK, remote_bootstrap_addr: 'http://127.0.0.1:8998' } }, says: /127\.0\.0\.1:8998; prefill is on 10\.0\.0\.1/ },
    { code: 'kv_role_mismatch', effect: 'kills', options: { d: decodeInstance({ kvRole: 'kv_producer' }) }, says: /D0 is a kv_producer and gets do_remote_prefill/ },
    { code: 'engine_of_another_rank', prefill: { rank: 0 }, decode: { params: { ...D_ASK, remote_engine_id: 'e1_dp1' } }, says: /rank 0 of P0.*rank 1/ },
    { code: 'decode_not_told_to_pull', decode: { params: { ...D_ASK, do_remote_prefill: null } }, says: /do_remote_prefill is null/ },
  ])('decode: $code: $says', ({ code, effect, says, ...row }) => {
    const verdicts = run(row);
    expect(codes(verdicts)).toEqual([code]);
    expect(verdicts[0]?.effect).toBe(effect);
    expect(verdicts[0]?.message).toMatch(says);
  });

  it.each<Row>([
    { code: 'prefill_without_transfer_id', prefill: { params: fields(P_ASK, { without: 'transfer_id' }) }, says: /transfer_id/ },
    { code: 'kv_role_mismatch', effect: 'kills', options: { p: prefillInstance({ kvRole: 'kv_consumer' }) }, says: /P0 is a kv_consumer and gets do_remote_decode/ },
    { code: 'prefill_may_end_by_stop', prefill: { rewrites: [] }, says: /has no ignore_eos\./ },
    { code: 'prefill_may_end_by_stop', options: { request: { json: { ignore_eos: true, stop: ['x'], stop_token_ids: [3] } } }, prefill: { rewrites: [] }, says: /has stop, stop_token_ids\./ },
  ])('prefill: $code: $says', ({ code, effect, says, prefill, options }) => {
    const verdicts = new Lint('mooncake', options).sendPrefill({ params: P_ASK, ...prefill });
    expect(codes(verdicts)).toEqual([code]);
    expect(verdicts[0]?.effect).toBe(effect);
    expect(verdicts[0]?.message).toMatch(says);
  });

  it('would wait for an engine that is gone, or for another than the one at work', () => {
    const linter = createLinter();
    const pair = (engine: string, transfer: string): readonly Verdict[] => {
      const lint = new Lint('mooncake', { linter });
      lint.sendPrefill({ params: { ...P_ASK, transfer_id: transfer } });
      return lint.sendDecode({ params: { ...D_ASK, transfer_id: transfer, remote_engine_id: engine } });
    };
    expect(pair('old', 'a')).toEqual([]);
    expect(pair('new', 'b')).toEqual([]);
    expect(pair('old', 'c')).toMatchObject([{ code: 'stale_engine_id', effect: 'hangs' }]);
    expect(pair('new', 'b')).toMatchObject([{ code: 'reference_reused' }]);
  });
});

describe('moriio', () => {
  const ZMQ_P = 'host:10.0.0.1,handshake:6301,notify:61005';
  const ZMQ_D = 'host:10.0.0.2,handshake:6301,notify:61005';
  const ID = `___prefill_addr_${ZMQ_P}___decode_addr_${ZMQ_D}_${'0a'.repeat(16)}`;
  const headers = { 'x-request-id': ID };
  const P_ASK: Params = { do_remote_decode: true, do_remote_prefill: false, remote_engine_id: null, remote_block_ids: null, transfer_id: 'tx-1', remote_dp_size: 1, remote_tp_size: 1 };
  const D_ASK: Params = { do_remote_prefill: true, do_remote_decode: false, transfer_id: 'tx-1', remote_engine_id: null, remote_block_ids: null, remote_dp_size: 1, remote_tp_size: 1, remote_dp_rank: 0 };

  const run = ({ prefill, decode, options }: Partial<Row>): readonly Verdict[] => {
    const lint = new Lint('moriio', options);
    lint.sendPrefill({ params: P_ASK, headers, ...prefill });
    return lint.sendDecode({ params: D_ASK, headers, ...decode });
  };

  it('is silent when all is well, by request id or by parameters', () => {
    const lint = new Lint('moriio');
    expect(lint.sendPrefill({ params: P_ASK, headers })).toEqual([]);
    expect(lint.sendDecode({ params: D_ASK, headers })).toEqual([]);
    const hosts = (host: string): Params => ({ remote_host: host, remote_handshake_port: 6301, remote_notify_port: 61005 });
    const other = new Lint('moriio');
    expect(other.sendPrefill({ params: { ...P_ASK, ...hosts('10.0.0.2') } })).toEqual([]);
    expect(other.sendDecode({ params: { ...D_ASK, ...hosts('10.0.0.1') } })).toEqual([]);
    // The answer of a READ prefill named another address than was registered.
    expect(run({ decode: { headers: { 'x-request-id': ID.replace('10.0.0.1', '10.0.0.7') } } })).toEqual([]);
    expect(run({ prefill: { params: { ...P_ASK, ...hosts('10.0.0.2') } }, decode: { params: { ...D_ASK, ...hosts('10.0.0.1') } } })).toEqual([]);
  });

  it.each<Row>([
    { code: 'peer_unknown', effect: 'kills', prefill: { headers: {} }, decode: { headers: {} }, says: /neither addresses in its request id nor/ },
    { code: 'peer_contradiction', decode: { params: { ...D_ASK, remote_host: '10.9.9.9' } }, says: /The request id says 10\.0\.0\.1, remote_host 10\.9\.9\.9/ },
    { code: 'peer_contradiction', decode: { params: { ...D_ASK, remote_handshake_port: 6302 } }, says: /handshake port 6301, remote_handshake_port 6302/ },
    { code: 'request_id_differs', decode: { headers: { 'x-request-id': ID.replace(/0a$/, '0b') } }, says: /X-Request-Id/ },
    { code: 'transfer_id_differs', decode: { params: { ...D_ASK, transfer_id: 'tx-2' } }, says: /tx-1 for prefill and tx-2/ },
    { code: 'transfer_id_missing', decode: { params: fields(D_ASK, { without: 'transfer_id' }) }, says: /lack transfer_id/ },
    { code: 'remote_dp_rank_wrong', decode: { params: { ...D_ASK, remote_dp_rank: 1 } }, says: /remote_dp_rank is 1 of 1 ranks/ },
    { code: 'remote_dp_rank_wrong', prefill: { rank: 1 }, decode: { params: { ...D_ASK, remote_dp_size: 4, remote_dp_rank: 2 } }, says: /remote_dp_rank is 2; prefill ran on rank 1 of P0/ },
    { code: 'remote_dp_rank_missing', options: { p: prefillInstance(undefined, withRanks(2)) }, decode: { params: fields(D_ASK, { without: 'remote_dp_rank' }) }, says: /P0 has 2 ranks/ },
    {
      code: 'transfer_mode_mismatch',
      options: { p: prefillInstance({ extraConfig: {} }), d: decodeInstance({ extraConfig: { read_mode: true } }) },
      decode: { params: { ...D_ASK, remote_block_ids: [1], remote_engine_id: '10.0.0.1:6301' } },
      says: /P0 runs in WRITE mode, D0 in READ mode/,
    },
    { code: 'read_without_blocks', options: { d: decodeInstance({ extraConfig: { read_mode: true } }) }, says: /gets no remote_block_ids/ },
  ])('$code: $says', ({ code, effect, says, ...row }) => {
    const verdicts = run(row);
    expect(codes(verdicts)).toEqual([code]);
    expect(verdicts[0]?.effect).toBe(effect);
    expect(verdicts[0]?.message).toMatch(says);
  });
});

describe('protocols without parameters', () => {
  it('are silent, and notice an engine that needs parameters', () => {
    const lint = new Lint('plain');
    expect([...lint.sendPrefill(), ...lint.prefillAnswered('null', USAGE), ...lint.sendDecode(), ...lint.decodeAnswered(undefined, USAGE)]).toEqual([]);
    expect(new Lint('aggregated').sendDecode()).toEqual([]);
    const verdicts = new Lint('plain', { p: prefillInstance({ kvConnector: 'NixlConnector' }) }).sendPrefill();
    expect(verdicts).toMatchObject([{ code: 'params_needed', severity: 'warning', message: 'P0 runs NixlConnector.' }]);
    expect(new Lint('plain', { p: prefillInstance({ kvConnector: 'LMCacheConnectorV1' }) }).sendPrefill()).toEqual([]);
  });

  it('render follows the contract of NIXL pull, by whatever route', () => {
    const lint = new Lint('render');
    expect(lint.sendPrefill({ params: ASK, path: '/inference/v1/generate', rewrites: [] })).toEqual([]);
    expect(lint.sendDecode({ params: { ...HANDOFF, remote_block_ids: null }, path: '/inference/v1/generate' })).toMatchObject([{ code: 'pull_without_blocks', effect: 'kills' }]);
  });
});
