import { describe, expect, it } from 'vitest';
import { Findings } from '#engine/findings/findings.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { Telemetry } from '#engine/telemetry/telemetry.ts';
import { CHAT_BODY, post, startHarness, type Harness } from '../proxy/harness.ts';
import { json, startUpstream, type ScriptedUpstream } from '../proxy/scripted-upstream.ts';

/** Told to pull, but not which blocks: an assertion ends a real engine. */
const FATAL = { do_remote_prefill: true, do_remote_decode: false, remote_block_ids: null, remote_engine_id: 'e1', remote_host: '127.0.0.1', remote_port: 5600 };
const GOOD = { ...FATAL, remote_block_ids: [[1]], remote_request_id: 'r', tp_size: 1 };

interface Bench extends AsyncDisposable {
  readonly harness: Harness;
  readonly prefill: ScriptedUpstream;
  readonly decode: ScriptedUpstream;
  readonly telemetry: Telemetry;
  readonly findings: Findings;
}

/** A proxy with linter, records and findings over a prefill instance that answers `params`. */
async function startBench(params: object): Promise<Bench> {
  const prefill = await startUpstream(json({ id: 'p', choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 }, kv_transfer_params: params }));
  const decode = await startUpstream(json({ id: 'd', choices: [{ finish_reason: 'stop' }], usage: { prompt_tokens: 5, completion_tokens: 3 } }));
  const findings = new Findings();
  const harness = await startHarness({ connector: 'nixl', linter: createLinter(), prefill: [prefill.origin], decode: [decode.origin] });
  const telemetry = new Telemetry({ settleIntervalMs: 0, findings, instanceName: (id) => harness.scheduler.get(id)?.name });
  harness.tracer.begin = (init) => telemetry.begin(init);
  return {
    harness, prefill, decode, telemetry, findings,
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      await prefill.close();
      await decode.close();
      telemetry.close();
    },
  };
}

describe('a decode leg that would end its engine', () => {
  it('is held back: 502 with the reason, nothing sent, recorded and listed', async () => {
    await using bench = await startBench(FATAL);
    const { harness, decode, prefill, telemetry, findings } = bench;
    const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY, { 'x-request-id': 'req-7' });
    expect(response.status).toBe(502);
    const body = (await response.json()) as { error: { code: string; message: string }; pdscope: object };
    expect(body.error.code).toBe('blocked_by_linter');
    expect(body.error.message).toContain('it would kill the engine');
    expect(body.error.message).toContain('remote_block_ids is null');
    expect(body.pdscope).toMatchObject({ code: 'blocked_by_linter', leg: 'decode', instance: 'd0', request_id: 'req-7' });
    expect(decode.received).toHaveLength(0);
    expect(prefill.received).toHaveLength(1);
    expect(harness.scheduler.inFlight).toBe(0);

    const [row] = [...telemetry.log.rows()];
    expect(row).toMatchObject({ state: 'error', status: 502, retries: 0, findings: { count: 1, worst: 'error' }, error: { code: 'blocked_by_linter' } });
    const detail = row === undefined ? undefined : telemetry.detail(row.id);
    expect(detail?.verdicts).toMatchObject([
      { code: 'pull_without_blocks', hop: 'proxy->decode', effect: 'kills', isBlocked: true, instance: 'p0' },
    ]);
    expect(findings.list().findings).toMatchObject([
      { code: 'pull_without_blocks', severity: 'error', connector: 'nixl', instance: 'p0', instanceName: 'P0', count: 1, blocked: 1, evidence: [{ hop: 'proxy->decode', request: { requestId: 'req-7' } }] },
    ]);
  });

  it('is sent when blocking is off, and says so', async () => {
    await using bench = await startBench(FATAL);
    const { harness, decode, telemetry, findings } = bench;
    harness.proxy.setProtocol({ blockFatal: false });
    const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
    expect(response.status).toBe(200);
    expect(decode.received[0]?.json['kv_transfer_params']).toEqual(FATAL);
    telemetry.settle();
    const [finding] = findings.list().findings;
    expect(finding).toMatchObject({ code: 'pull_without_blocks', effect: 'kills', count: 1, blocked: 0 });
  });

  it('is sent when nothing is wrong', async () => {
    await using bench = await startBench(GOOD);
    const { harness, decode, telemetry, findings } = bench;
    const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
    expect(response.status).toBe(200);
    expect(decode.received[0]?.json['kv_transfer_params']).toEqual(GOOD);
    expect(findings.list().findings).toEqual([]);
    expect([...telemetry.log.rows()][0]).not.toHaveProperty('findings');
  });
});

describe('a client that brings parameters of its own', () => {
  it('cannot end an engine with them', async () => {
    await using bench = await startBench(GOOD);
    const { harness, decode } = bench;
    await harness.proxy.setConnector('plain');
    for (const instance of harness.scheduler.instances) instance.transfer = { kvConnector: 'NixlConnector' };
    const response = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, n: 2, kv_transfer_params: { do_remote_prefill: true } });
    expect(response.status).toBe(502);
    expect(((await response.json()) as { error: { code: string } }).error.code).toBe('blocked_by_linter');
    expect(decode.received).toHaveLength(0);
  });
});
