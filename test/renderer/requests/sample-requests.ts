/** Requests for renderer tests and for looking at the page. Every figure is a function of the number given. */
import type { InstanceId, RecordId } from '#shared/ids.ts';
import type { LegView, PhaseSpan, RequestDetail, RequestRow } from '#shared/request.ts';

export const RECEIVED = Date.UTC(2026, 10, 20, 14, 2, 31, 100);

const span = (phase: PhaseSpan['phase'], startMs: number, endMs: number, isExact = true): PhaseSpan => ({ phase, startMs, endMs, isExact });

/** Phases of a request P -> D with a long remote-KV wait when `n` is divisible by 10. */
export function samplePhases(n: number): readonly PhaseSpan[] {
  const queue = 5 + (n % 7) * 8;
  const compute = 90 + (n % 11) * 21;
  const wait = n % 10 === 0 ? 718 : 18 + (n % 5) * 6;
  const at = [0, 4, 4 + queue, 4 + queue + compute, 11 + queue + compute, 31 + queue + compute];
  const p = (index: number): number => at[index] ?? 0;
  const first = p(5) + wait;
  return [
    span('proxy', p(0), p(1)), span('prefill-queue', p(1), p(2), false), span('prefill-compute', p(2), p(3), false), span('handoff', p(3), p(4)),
    span('decode-queue', p(4), p(5), false), span('kv-wait', p(5), first, false), span('first-step', first, first + 24, false),
    span('unattributed', first + 24, first + 34, false), span('decode', first + 34, first + 34 + 300 + (n % 9) * 90),
  ];
}

export function sampleRow(n: number, part: Partial<RequestRow> = {}): RequestRow {
  const phases = samplePhases(n);
  const end = phases.at(-1);
  return {
    id: `r${n}` as RecordId, n, requestId: `chatcmpl-7f3a${String(n).padStart(4, '0')}`, receivedAtUnixMs: RECEIVED + n * 613, api: n % 3 === 0 ? 'completions' : 'chat',
    model: 'Qwen3-8B', isStream: n % 4 !== 0, connector: 'nixl', state: 'ok', status: 200,
    route: [
      { kind: 'prefill', instance: `p${n % 2}` as InstanceId, name: `P${n % 2}` },
      { kind: 'decode', instance: `d${n % 3}` as InstanceId, name: `D${n % 3}` },
    ],
    promptTokens: 1200 + (n % 17) * 331, cachedTokens: 96 + (n % 17) * 110, completionTokens: 60 + (n % 9) * 21, chunks: 60 + (n % 9) * 21,
    requestBytes: 5321, responseBytes: 20_412, prefillMs: 140, handoffMs: 7, ttftMs: end?.startMs ?? 0, itlMs: 10 + (n % 6) * 0.4, tpotMs: 10.3, e2elMs: end?.endMs ?? 0,
    retries: 0, phases, isSimulated: true, isOwnProbe: false, ...part,
  };
}

export function failedRow(n: number): RequestRow {
  const { ttftMs: _ttft, itlMs: _itl, tpotMs: _tpot, completionTokens: _tokens, cachedTokens: _cached, ...rest } = sampleRow(n);
  return {
    ...rest, state: 'error', status: 502, chunks: 0, e2elMs: 170, retries: 1, phases: samplePhases(n).slice(0, 4),
    error: { message: 'connect ECONNREFUSED 10.0.4.15:8200', leg: 'decode', instance: 'd1' as InstanceId, instanceName: 'D1', code: 'connect_failed' },
  };
}

export function sampleLeg(row: RequestRow, kind: 'prefill' | 'decode', part: Partial<LegView> = {}): LegView {
  const isPrefill = kind === 'prefill';
  const step = row.route.find((one) => one.kind === kind);
  const handoff = row.phases.find((one) => one.phase === 'handoff');
  const decode = row.phases.find((one) => one.phase === 'decode');
  return {
    kind, attempt: 1, instance: step?.instance ?? ('x' as InstanceId), instanceName: step?.name ?? 'X', url: `http://10.0.4.1${isPrefill ? 2 : 4}:8100/v1/chat/completions`,
    sentMs: isPrefill ? 4 : (handoff?.endMs ?? 0), headersMs: isPrefill ? 40 : (decode?.startMs ?? 0) - 2, firstByteMs: isPrefill ? 40 : (decode?.startMs ?? 0),
    endMs: isPrefill ? (handoff?.startMs ?? 0) : (decode?.endMs ?? 0), status: 200, outcome: 'ok',
    requestHeaders: { 'content-type': 'application/json', authorization: 'Bearer sk-very-secret', 'x-request-id': row.requestId }, responseHeaders: { 'content-type': 'application/json' },
    requestBytes: 5400, responseBytes: isPrefill ? 812 : 20_412,
    rewrites: isPrefill ? [{ field: 'stream', from: 'true', to: 'false' }, { field: 'max_tokens', from: '256', to: '1' }, { field: 'stream_options', from: '{"include_usage":true}' }] : [],
    ...(isPrefill
      ? { kvTransferParamsReceived: { do_remote_prefill: true, remote_engine_id: 'e-p1', remote_block_ids: [4, 5, 6, 7], remote_host: '10.0.4.13', remote_port: 5600 } }
      : { kvTransferParamsSent: { do_remote_prefill: true, remote_engine_id: 'e-p1', remote_block_ids: [4, 5, 6, 7], remote_host: '10.0.4.13', remote_port: 5600 } }),
    usage: { promptTokens: row.promptTokens ?? 0, cachedTokens: isPrefill ? 208 : 624 },
    gaugesAtSend: isPrefill ? { inFlight: 11, running: 19, waiting: 7, kvUsage: 0.83, scrapeAgeMs: 812 } : { inFlight: 42, running: 42, waiting: 0, kvUsage: 0.48, scrapeAgeMs: 401 },
    ...part,
  };
}

/** `count` encode legs over E0 and E1, sent one after the other and running at once; every eighth fails. */
export function sampleEncodeLegs(count: number): readonly LegView[] {
  return Array.from({ length: count }, (_, index) => {
    const name = `E${index % 2}`;
    const isFailed = index % 8 === 7;
    const sentMs = 0.6 + index * 0.4;
    return {
      kind: 'encode', attempt: 1, instance: name.toLowerCase() as InstanceId, instanceName: name, url: 'http://10.0.4.11:8001/v1/chat/completions',
      sentMs, endMs: sentMs + 12 + ((index * 7) % 23), status: isFailed ? 500 : 200, outcome: isFailed ? 'error' : 'ok',
      ...(isFailed && { error: { message: 'encoder out of memory', code: 'upstream_status', leg: 'encode' as const } }),
      requestHeaders: {}, requestBytes: 812, responseBytes: 300, rewrites: [],
    };
  });
}

/** Arrivals every `gapMs`, with one stall of 53 ms in the middle. */
export function sampleChunks(firstMs: number, count: number, gapMs: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => firstMs + index * gapMs + (index >= count / 2 ? 53 : 0));
}

export function sampleDetail(row: RequestRow, part: Partial<RequestDetail> = {}): RequestDetail {
  const first = row.phases.find((one) => one.phase === 'decode')?.startMs ?? 0;
  const chunkTimesMs = row.isStream && row.state !== 'error' ? sampleChunks(first, 30, 10) : [];
  const parts = row.phases.filter((one) => one.phase !== 'decode' && one.phase !== 'unattributed');
  const explained = parts.reduce((sum, one) => sum + one.endMs - one.startMs, 0);
  return {
    row, clientHeaders: { 'content-type': 'application/json', Authorization: 'Bearer sk-very-secret', cookie: 'session=abc', 'user-agent': 'OpenAI/Python 2.1', host: '127.0.0.1:8000' },
    parsedMs: 0.4, legs: [sampleLeg(row, 'prefill'), sampleLeg(row, 'decode')],
    decisions: [
      {
        kind: 'prefill', policy: 'least-in-flight', chosen: row.route[0]?.instance ?? ('p0' as InstanceId), attempt: 1, atMs: 0.5,
        candidates: [{ instance: 'p0' as InstanceId, name: 'P0', score: 11, reason: '11 in flight' }, { instance: 'p1' as InstanceId, name: 'P1', score: 19, reason: '19 in flight' }],
        excluded: [{ instance: 'p2' as InstanceId, name: 'P2', reason: 'down: GET /health: 503' }],
      },
    ],
    verdicts: [],
    ...(row.ttftMs !== undefined && {
      ttft: { totalMs: row.ttftMs, parts: parts.map((one) => ({ phase: one.phase, ms: one.endMs - one.startMs, isExact: one.isExact })), unattributedMs: row.ttftMs - explained },
    }),
    chunkTimesMs, chunkBytes: chunkTimesMs.map(() => 190), chunkTimesDropped: 0,
    ...part,
  };
}
