import { describe, expect, it } from 'vitest';
import type { Instance } from '#engine/fleet/instance.ts';
import type { Verdict } from '#shared/findings.ts';
import type { TransferFacts } from '#shared/instance.ts';
import { ASK, codes, decodeInstance, HANDOFF, Lint, type Params, prefillInstance, USAGE } from './support.ts';

function handOff(params: Params, options: ConstructorParameters<typeof Lint>[1] = {}): readonly Verdict[] {
  const lint = new Lint('nixl', options);
  lint.sendPrefill({ params: ASK });
  return lint.sendDecode({ params });
}

function without(...fields: string[]): Params {
  return Object.fromEntries(Object.entries(HANDOFF).filter(([field]) => !fields.includes(field)));
}

describe('a well-formed NIXL handoff', () => {
  it('passes every hop without a verdict', () => {
    const facts: TransferFacts = { kvConnector: 'NixlConnector', kvRole: 'kv_both', engineId: 'e1', tpSize: 1, ppSize: 1, blockSize: 16 };
    const lint = new Lint('nixl', { p: prefillInstance(facts), d: decodeInstance({ ...facts, engineId: 'e2' }) });
    expect(lint.sendPrefill({ params: ASK })).toEqual([]);
    expect(lint.prefillAnswered(HANDOFF, USAGE)).toEqual([]);
    expect(lint.sendDecode({ params: HANDOFF })).toEqual([]);
    expect(lint.decodeAnswered(undefined, { usage: { promptTokens: 40, completionTokens: 9 } })).toEqual([]);
  });

  it('passes as it came from older engines: flat block list, no token count, no mode', () => {
    expect(handOff({ ...without('remote_num_tokens', 'transfer_mode', 'remote_blocks_expiry_time'), remote_block_ids: [7, 8, 9] })).toEqual([]);
  });
});

describe('the decode leg', () => {
  const rows: { readonly params: Params; readonly expected: Partial<Verdict>; readonly says: RegExp }[] = [
    { params: without('remote_block_ids'), expected: { code: 'pull_without_blocks', effect: 'kills', severity: 'error' }, says: /remote_block_ids is missing/ },
    { params: { ...HANDOFF, remote_block_ids: null }, expected: { code: 'pull_without_blocks', effect: 'kills' }, says: /is null/ },
    { params: { ...HANDOFF, remote_block_ids: [] }, expected: { code: 'pull_without_blocks', effect: 'kills' }, says: /is \[\]/ },
    { params: without('remote_engine_id'), expected: { code: 'pull_incomplete', effect: 'hangs' }, says: /lack remote_engine_id\./ },
    { params: without('remote_host', 'remote_port'), expected: { code: 'pull_incomplete', effect: 'hangs' }, says: /lack remote_host, remote_port\./ },
    { params: { ...HANDOFF, remote_port: null }, expected: { code: 'pull_incomplete', effect: 'hangs' }, says: /remote_port/ },
    { params: without('remote_request_id'), expected: { code: 'pull_without_request_id', effect: 'hangs' }, says: /remote_request_id/ },
    { params: without('tp_size'), expected: { code: 'no_heartbeats', severity: 'warning' }, says: /tp_size/ },
    { params: { ...HANDOFF, transfer_mode: 'push' }, expected: { code: 'transfer_mode_mismatch', severity: 'error' }, says: /push/ },
    { params: { ...HANDOFF, do_remote_prefill: false }, expected: { code: 'decode_not_told_to_pull', severity: 'warning' }, says: /do_remote_prefill is false/ },
    { params: { ...HANDOFF, remote_host: 'localhost' }, expected: { code: 'remote_host_local', severity: 'error', instance: 'p0' as Verdict['instance'] & string }, says: /localhost.*10\.0\.0\.1.*10\.0\.0\.2/ },
    { params: { ...HANDOFF, remote_host: '0.0.0.0' }, expected: { code: 'remote_host_local' }, says: /0\.0\.0\.0/ },
    { params: { ...HANDOFF, remote_host: '127.0.1.1' }, expected: { code: 'remote_host_local' }, says: /127\.0\.1\.1/ },
  ];
  it.each(rows)('$expected.code: $says', ({ params, expected, says }) => {
    const verdicts = handOff(params);
    expect(codes(verdicts)).toEqual([expected.code]);
    expect(verdicts[0]).toMatchObject({ hop: 'proxy->decode', ...expected });
    expect(verdicts[0]?.effect).toBe(expected.effect);
    expect(verdicts[0]?.message).toMatch(says);
  });

  it.each([
    [15, [], []],
    [16, [], ['pull_without_blocks']],
    [15, null, ['pull_without_blocks']],
  ])('a prompt of %i tokens with blocks %j: %j', (promptTokens, blocks, expected) => {
    const lint = new Lint('nixl');
    const params = { ...without('remote_num_tokens', 'transfer_mode', 'remote_request_id'), remote_block_ids: blocks };
    lint.sendPrefill({ params: ASK });
    lint.prefillAnswered(params, { usage: { promptTokens, completionTokens: 1 } });
    expect(codes(lint.sendDecode({ params }))).toEqual(expected);
  });

  it('asks for a request id only of engines that need it', () => {
    const old = handOff(without('remote_request_id'), { d: decodeInstance(undefined, { version: '0.11.2' }) });
    expect(old).toMatchObject([{ code: 'pull_without_request_id' }]);
    expect(old[0]).not.toHaveProperty('effect');
  });

  it('takes a local host for what it is when both are on one machine', () => {
    const local = (port: number): Partial<Instance> => ({ origin: `http://127.0.0.1:${port}` });
    expect(handOff({ ...HANDOFF, remote_host: 'localhost' }, { p: prefillInstance(undefined, local(1)), d: decodeInstance(undefined, local(2)) })).toEqual([]);
    const same: Partial<Instance> = { origin: 'http://10.0.0.1:9' };
    expect(handOff({ ...HANDOFF, remote_host: 'localhost' }, { d: decodeInstance(undefined, same) })).toEqual([]);
  });

  it('says nothing about fields of a text that was cut for the record', () => {
    const text = JSON.stringify({ do_remote_prefill: true, remote_block_ids: [[1, 2, 3, 4]], remote_engine_id: 'e1' }).slice(0, -30);
    const lint = new Lint('nixl');
    lint.sendPrefill({ params: ASK });
    expect(lint.sendDecode({ params: text })).toEqual([]);
  });
});

describe('a pair of instances that do not fit', () => {
  const facts = (extra: TransferFacts): TransferFacts => ({ kvConnector: 'NixlConnector', tpSize: 2, ppSize: 1, blockSize: 16, ...extra });
  const rows: { readonly code: string; readonly p?: TransferFacts; readonly d?: TransferFacts; readonly params?: Params; readonly says: RegExp }[] = [
    { code: 'block_size_mismatch', d: { blockSize: 128 }, says: /P0 has blocks of 16 tokens, D0 of 128/ },
    { code: 'tp_size_mismatch', d: { tpSize: 3 }, params: { ...HANDOFF, tp_size: 2 }, says: /say 2, D0 has 3/ },
    { code: 'pp_size_mismatch', params: { ...HANDOFF, pp_size: 4 }, says: /say 4, P0 has 1/ },
    { code: 'wrong_kv_connector', d: { kvConnector: 'MooncakeConnector' }, says: /D0 runs MooncakeConnector/ },
    { code: 'kv_role_mismatch', d: { kvRole: 'kv_producer' }, says: /D0 is a kv_producer/ },
  ];
  it.each(rows)('$code', ({ code, p = {}, d = {}, params = HANDOFF, says }) => {
    const verdicts = handOff(params, { p: prefillInstance(facts(p)), d: decodeInstance(facts(d)) });
    expect(codes(verdicts)).toEqual([code]);
    expect(verdicts[0]?.message).toMatch(says);
  });

  it('lets tensor-parallel sizes differ when one divides the other', () => {
    expect(handOff({ ...HANDOFF, tp_size: 2 }, { d: decodeInstance(facts({ tpSize: 8 })) })).toEqual([]);
    expect(handOff({ ...HANDOFF, tp_size: 8 }, { d: decodeInstance(facts({ tpSize: 2 })) })).toEqual([]);
  });

  it('takes the block size from the metrics when the engine has no server info', () => {
    const gauges = (blockSize: number): Partial<Instance> => ({ gauges: { scrapedAtUnixMs: 0, blockSize } });
    expect(codes(handOff(HANDOFF, { p: prefillInstance(undefined, gauges(16)), d: decodeInstance(undefined, gauges(32)) }))).toEqual(['block_size_mismatch']);
  });
});

describe('the prefill leg', () => {
  it.each([
    { code: 'prefill_not_told_to_keep', params: undefined, says: /no kv_transfer_params/ },
    { code: 'prefill_not_told_to_keep', params: { do_remote_decode: false }, says: /do_remote_decode is false/ },
    { code: 'pull_without_blocks', params: { do_remote_decode: true, do_remote_prefill: true }, says: /assertion/ },
  ])('$code: $says', ({ code, params, says }) => {
    const verdicts = new Lint('nixl').sendPrefill({ params });
    expect(codes(verdicts)).toEqual([code]);
    expect(verdicts[0]).toMatchObject({ hop: 'proxy->prefill', instance: 'p0' });
    expect(verdicts[0]?.message).toMatch(says);
  });

  it.each([
    { json: { stream: true }, kept: 'stream=true' },
    { json: { stream: false, stream_options: { include_usage: true } }, kept: 'stream_options' },
    { json: { min_tokens: 5 }, kept: 'min_tokens=5' },
    { json: { n: 2 }, kept: 'n=2' },
    { json: { max_completion_tokens: 20 }, kept: 'max_completion_tokens' },
    { json: { max_tokens: 20 }, kept: 'max_tokens' },
  ])('is to be rewritten: $kept', ({ json, kept }) => {
    const lint = new Lint('nixl', { request: { json } });
    expect(lint.sendPrefill({ params: ASK })).toEqual([]);
    const [verdict] = lint.sendPrefill({ params: ASK, rewrites: [] });
    expect(verdict).toMatchObject({ code: 'prefill_body_not_rewritten' });
    expect(verdict?.message).toContain(`still has ${kept}.`);
  });
});

describe('the prefill answer', () => {
  const answer = (params: Params, promptTokens = 40, blockSize = 16): readonly Verdict[] => {
    const lint = new Lint('nixl', { p: prefillInstance({ blockSize }) });
    lint.sendPrefill({ params: ASK });
    return lint.prefillAnswered(params, { usage: { promptTokens, completionTokens: 1 } });
  };

  it('is silent about missing params: the connector reports the run as decode-only', () => {
    const lint = new Lint('nixl');
    lint.sendPrefill({ params: ASK });
    expect(lint.prefillAnswered(undefined, USAGE)).toEqual([]);
    expect(lint.prefillAnswered('null', USAGE)).toEqual([]);
  });

  it.each([
    { code: 'transfer_mode_mismatch', params: { ...HANDOFF, transfer_mode: 'push' }, says: /push/ },
    { code: 'token_count_mismatch', params: { ...HANDOFF, remote_num_tokens: 50 }, says: /50; the prompt has 40/ },
    { code: 'block_count_mismatch', params: { ...HANDOFF, remote_block_ids: [[7]] }, says: /kept 1 blocks of 16 tokens for a prompt of 40: too few/ },
    { code: 'block_count_mismatch', params: { ...HANDOFF, remote_block_ids: [[1, 2, 3, 4, 5]] }, says: /5 blocks.*too many/ },
  ])('$code: $says', ({ code, params, says }) => {
    const verdicts = answer(params);
    expect(codes(verdicts)).toEqual([code]);
    expect(verdicts[0]).toMatchObject({ hop: 'prefill->proxy', instance: 'p0', severity: 'warning' === verdicts[0]?.severity ? 'warning' : 'error' });
    expect(verdicts[0]?.message).toMatch(says);
  });

  it('allows the last partial block to be left out, and one to spare for lookahead', () => {
    for (const remote_block_ids of [[[1, 2]], [[1, 2, 3]], [[1, 2, 3, 4]]]) expect(answer({ ...HANDOFF, remote_block_ids })).toEqual([]);
  });

  it('does not count the groups of a hybrid model, and nothing when the block size is unknown', () => {
    expect(answer({ ...HANDOFF, remote_block_ids: [[1], [2]] })).toEqual([]);
    const lint = new Lint('nixl');
    lint.sendPrefill({ params: ASK });
    expect(lint.prefillAnswered({ ...HANDOFF, remote_block_ids: [[1]] }, USAGE)).toEqual([]);
  });
});

describe('the decode answer', () => {
  it('shows that both legs tokenised the same prompt', () => {
    const lint = new Lint('nixl');
    lint.sendPrefill({ params: ASK });
    lint.prefillAnswered(HANDOFF, USAGE);
    lint.sendDecode({ params: HANDOFF });
    const verdicts = lint.decodeAnswered(undefined, { usage: { promptTokens: 41, completionTokens: 3 } });
    expect(verdicts).toMatchObject([{ code: 'prompt_tokens_differ', hop: 'decode->proxy', severity: 'error', message: 'P0 counted 40 prompt tokens, D0 41.' }]);
    expect(lint.decodeAnswered(undefined, {})).toEqual([]);
  });
});
