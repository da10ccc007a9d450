/** Makes what views show out of a record: its row and its detail. Off the hot path, when somebody asks. */
import type {
  CapturedBody, EngineRequestMetrics, LegView, RequestDetail, RequestRow, RouteStep,
} from '#shared/request.ts';
import { boundValue } from './bound-value.ts';
import { unixMsOf, type Clock } from './clock.ts';
import { explainTtft, isReadWhole, phasesOf, type Timeline } from './explain.ts';
import { medianGapMs } from './gaps.ts';
import { redactHeaders } from './redact.ts';
import type { KeptBody, LegRecord, RequestRecord } from './request-record.ts';

/** A running stream's median is computed again when it has grown by a quarter. */
const MEDIAN_GROWTH = 1.25;

/** The row of a record; the same object until the record changes. */
export function rowOf(record: RequestRecord, clock: Clock): RequestRow {
  record.row ??= makeRow(record, clock);
  return record.row;
}

/** A detail without its row and without captured bodies. */
export type PlainDetail = Omit<RequestDetail, 'row'>;

/** Captured bodies of a record, which are kept as they are. */
export interface KeptBodies {
  readonly client: KeptBody | undefined;
  /** In the order of the legs. */
  readonly legs: readonly { readonly request: KeptBody | undefined; readonly response: KeptBody | undefined }[];
}

export function detailOf(record: RequestRecord, clock: Clock): RequestDetail {
  return joinDetail(rowOf(record, clock), plainDetailOf(record), bodiesOf(record));
}

export function plainDetailOf(record: RequestRecord): PlainDetail {
  const { init } = record;
  const chunks = record.stream?.chunks;
  const times: number[] = [];
  const sizes: number[] = [];
  if (chunks !== undefined) {
    for (let index = chunks.first; index < chunks.total; index += 1) {
      times.push(chunks.timeMs(index));
      sizes.push(chunks.bytes(index));
    }
  }
  const ttft = explainTtft(timelineOf(record));
  return {
    ...(init.traceparent !== undefined && { traceparent: init.traceparent }),
    clientHeaders: redactHeaders(init.headers),
    ...(record.parsedMs !== undefined && { parsedMs: record.parsedMs }),
    legs: record.legs.map(legView),
    decisions: [...record.decisions],
    verdicts: record.verdicts ?? [],
    ...(ttft !== undefined && { ttft }),
    chunkTimesMs: times,
    chunkBytes: sizes,
    chunkTimesDropped: chunks?.dropped ?? 0,
  };
}

/** Undefined when nothing was captured. */
export function bodiesOf(record: RequestRecord): KeptBodies | undefined {
  if (record.captureBytes === 0) return undefined;
  return { client: record.clientBody, legs: record.legs.map(({ requestBody, responseBody }) => ({ request: requestBody, response: responseBody })) };
}

export function joinDetail(row: RequestRow, detail: PlainDetail, bodies: KeptBodies | undefined): RequestDetail {
  if (bodies === undefined) return { row, ...detail };
  const legs = detail.legs.map((leg, at) => {
    const { request, response } = bodies.legs[at] ?? {};
    return { ...leg, ...(request !== undefined && { requestBody: bodyOf(request) }), ...(response !== undefined && { responseBody: bodyOf(response) }) };
  });
  return { row, ...detail, ...(bodies.client !== undefined && { clientBody: bodyOf(bodies.client) }), legs };
}

/** The leg whose answer the client gets: the last decode leg, or the one leg of a forwarded request. */
export function answeringLeg(record: RequestRecord): LegRecord | undefined {
  return record.legs.findLast((leg) => leg.kind === 'decode' || leg.kind === 'forward');
}

/** Whether the client's stream was made by pdscope out of a whole answer: its gaps say nothing about the engine. */
export function isReemitted(record: RequestRecord): boolean {
  const { firstChunkMs } = record;
  const leg = firstChunkMs === undefined ? undefined : answeringLeg(record);
  return firstChunkMs !== undefined && leg !== undefined && isReadWhole(leg, firstChunkMs);
}

/** The prefill leg that counts: the last one that succeeded, else the last one. */
export function prefillLeg(record: RequestRecord): LegRecord | undefined {
  return record.legs.findLast((leg) => leg.kind === 'prefill' && leg.outcome === 'ok') ?? record.legs.findLast((leg) => leg.kind === 'prefill');
}

/** End of prefill to the first decode leg after it, ms; undefined when there was no such step. */
export function handoffMs(record: RequestRecord): number | undefined {
  const prefill = prefillLeg(record);
  if (prefill?.outcome !== 'ok' || prefill.endMs === undefined) return undefined;
  const { endMs } = prefill;
  const decode = record.legs.find((leg) => leg.kind === 'decode' && leg.sentMs >= endMs);
  return decode === undefined ? undefined : decode.sentMs - endMs;
}

/**
 * (E2EL - TTFT) / (output tokens - 1), as `vllm bench serve` defines TPOT. Needs a complete stream and the count of
 * tokens as reported by the engine: chunks are not tokens.
 */
export function tpotMs(record: RequestRecord): number | undefined {
  const tokens = answeringLeg(record)?.usage?.completionTokens;
  if (record.state !== 'ok' || record.firstChunkMs === undefined || record.endMs === undefined || tokens === undefined || tokens < 2) return undefined;
  if (isReemitted(record)) return undefined;
  return (record.endMs - record.firstChunkMs) / (tokens - 1);
}

/** Messages at the end of the stream that are no output; see gaps.ts. */
export function trailingMessages(record: RequestRecord): number {
  if (record.state !== 'ok' && record.state !== 'running') return 0;
  return answeringLeg(record)?.usage === undefined ? 1 : 2;
}

/** The engine's own timings out of a `metrics` object (`--enable-per-request-metrics`). */
export function engineMetricsOf(metrics: unknown): EngineRequestMetrics | undefined {
  if (typeof metrics !== 'object' || metrics === null) return undefined;
  const fields = metrics as Readonly<Record<string, unknown>>;
  const queueMs = duration(fields['queue_time_ms']);
  const timeToFirstTokenMs = duration(fields['time_to_first_token_ms']);
  const generationMs = duration(fields['generation_time_ms']);
  const meanItlMs = duration(fields['mean_itl_ms']);
  const result: EngineRequestMetrics = {
    ...(queueMs !== undefined && { queueMs }),
    ...(timeToFirstTokenMs !== undefined && { timeToFirstTokenMs }),
    ...(generationMs !== undefined && { generationMs }),
    ...(meanItlMs !== undefined && { meanItlMs }),
  };
  return Object.keys(result).length === 0 ? undefined : result;
}

function timelineOf(record: RequestRecord): Timeline {
  return {
    legs: record.legs.map((leg) => {
      const engine = engineMetricsOf(leg.metrics);
      return {
        kind: leg.kind,
        sentMs: leg.sentMs,
        endMs: leg.endMs,
        outcome: leg.outcome,
        queueMs: engine?.queueMs,
        computeMs: engine?.timeToFirstTokenMs,
        hasTransferParams: leg.transferParamsSent !== undefined,
      };
    }),
    firstChunkMs: record.firstChunkMs,
    lastChunkMs: record.lastChunkMs,
    endMs: record.endMs,
  };
}

function makeRow(record: RequestRecord, clock: Clock): RequestRow {
  const { init, parsedInit } = record;
  const decode = answeringLeg(record);
  const prefill = prefillLeg(record);
  const promptTokens = decode?.usage?.promptTokens ?? prefill?.usage?.promptTokens;
  const cachedTokens = prefill?.usage?.cachedTokens;
  const completionTokens = decode?.usage?.completionTokens;
  const prefillMs = prefill?.outcome === 'ok' && prefill.endMs !== undefined ? prefill.endMs - prefill.sentMs : undefined;
  const handoff = handoffMs(record);
  const itlMs = medianOf(record);
  const tpot = tpotMs(record);
  return {
    id: record.id,
    n: record.n,
    requestId: parsedInit?.requestId ?? init.requestId,
    receivedAtUnixMs: unixMsOf(clock, record.receivedMs),
    api: init.api,
    ...(init.path !== undefined && { path: init.path }),
    ...(parsedInit?.model !== undefined && { model: parsedInit.model }),
    isStream: parsedInit?.isStream ?? false,
    connector: init.connector,
    state: record.state,
    ...(record.status !== undefined && { status: record.status }),
    route: routeOf(record),
    ...(promptTokens !== undefined && { promptTokens }),
    ...(cachedTokens !== undefined && { cachedTokens }),
    ...(completionTokens !== undefined && { completionTokens }),
    chunks: record.events,
    requestBytes: parsedInit?.requestBytes ?? 0,
    responseBytes: record.responseBytes,
    ...(prefillMs !== undefined && { prefillMs }),
    ...(handoff !== undefined && { handoffMs: handoff }),
    ...(record.firstChunkMs !== undefined && { ttftMs: record.firstChunkMs }),
    ...(itlMs !== undefined && { itlMs }),
    ...(tpot !== undefined && { tpotMs: tpot }),
    ...(record.endMs !== undefined && { e2elMs: record.endMs }),
    retries: record.retries,
    ...(record.error !== undefined && { error: record.error }),
    phases: phasesOf(timelineOf(record)),
    ...(record.verdicts !== undefined && { findings: { count: record.verdictCount, worst: record.worstVerdict } }),
    isSimulated: record.legs.some((leg) => leg.instance.isSimulated),
    isOwnProbe: record.isOwnProbe,
  };
}

/** Where the request went, leg by leg; a repeated leg replaces the one that failed. */
function routeOf(record: RequestRecord): RouteStep[] {
  const steps: { readonly leg: LegRecord; readonly step: RouteStep }[] = [];
  for (const leg of record.legs) {
    const step = { kind: leg.kind, instance: leg.instance.id, name: leg.instance.name, ...(leg.rank !== undefined && { rank: leg.rank }) };
    const earlier = steps.findIndex((known) => isReplaced(known.leg, leg));
    if (earlier === -1) steps.push({ leg, step });
    else steps[earlier] = { leg, step };
  }
  return steps.map(({ step }) => step);
}

/** Encode legs run side by side, one per media item, and rendering goes both ways: there only a failed one is replaced. */
function isReplaced(earlier: LegRecord, leg: LegRecord): boolean {
  if (earlier.kind !== leg.kind || leg.kind === 'encode') return false;
  return leg.kind !== 'render' || earlier.outcome === 'error';
}

function medianOf(record: RequestRecord): number | undefined {
  const { stream, median, events } = record;
  if (stream === undefined || isReemitted(record)) return undefined;
  const isFinal = record.state !== 'running';
  if (median !== undefined && !isFinal && events < median.events * MEDIAN_GROWTH) return median.ms;
  const ms = medianGapMs(stream.chunks, trailingMessages(record));
  record.median = { events, ms };
  return ms;
}

function legView(leg: LegRecord): LegView {
  const engineMetrics = engineMetricsOf(leg.metrics);
  return {
    kind: leg.kind,
    attempt: leg.attempt,
    instance: leg.instance.id,
    instanceName: leg.instance.name,
    ...(leg.rank !== undefined && { rank: leg.rank }),
    url: leg.url,
    sentMs: leg.sentMs,
    ...(leg.headersMs !== undefined && { headersMs: leg.headersMs }),
    ...(leg.firstByteMs !== undefined && { firstByteMs: leg.firstByteMs }),
    ...(leg.endMs !== undefined && { endMs: leg.endMs }),
    ...(leg.status !== undefined && { status: leg.status }),
    outcome: leg.outcome,
    ...(leg.error !== undefined && { error: leg.error }),
    requestHeaders: redactHeaders(leg.requestHeaders),
    ...(leg.responseHeaders !== undefined && { responseHeaders: redactHeaders(leg.responseHeaders) }),
    requestBytes: leg.requestBytes,
    responseBytes: leg.responseBytes,
    rewrites: leg.rewrites,
    ...(leg.transferParamsSent !== undefined && { kvTransferParamsSent: boundValue(leg.transferParamsSent) }),
    ...(leg.transferParamsReceived !== undefined && { kvTransferParamsReceived: boundValue(leg.transferParamsReceived) }),
    ...(leg.usage !== undefined && { usage: leg.usage }),
    ...(leg.finishReason !== undefined && { finishReason: leg.finishReason }),
    ...(engineMetrics !== undefined && { engineMetrics }),
    gaugesAtSend: leg.gaugesAtSend,
  };
}

function bodyOf(kept: KeptBody): CapturedBody {
  const isCut = kept.data.length < kept.bytes;
  // Half a character at the cut becomes U+FFFD; it is left out.
  const text = kept.data.toString('utf8');
  return { text: isCut ? text.replace(/\uFFFD{1,3}$/, '') : text, bytes: kept.bytes, isCut };
}

function duration(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}
