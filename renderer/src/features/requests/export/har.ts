/**
 * Requests as a HAR 1.2 log (http://www.softwareishard.com/blog/har-12-spec/): one entry for what the client saw and one
 * for each leg, on the same time axis, so that a HAR viewer draws the same waterfall. Fields of our own start with `_`.
 */
import type { CapturedBody, LegView, RequestDetail } from '#shared/request.ts';
import { requestPath } from '../request-path.ts';

/** HAR writes -1 for what is not known or does not apply. */
const UNKNOWN = -1;

interface EntryInput {
  readonly startedUnixMs: number;
  readonly url: string;
  readonly status: number | undefined;
  readonly requestHeaders: Readonly<Record<string, string>>;
  readonly responseHeaders: Readonly<Record<string, string>> | undefined;
  readonly requestBytes: number;
  readonly responseBytes: number;
  readonly requestBody: CapturedBody | undefined;
  readonly responseBody: CapturedBody | undefined;
  /** From start to first byte and to the end, ms; absent = not observed. */
  readonly firstByteMs: number | undefined;
  readonly endMs: number | undefined;
  readonly comment: string;
  readonly extra: Readonly<Record<string, unknown>>;
}

/** A HAR log of sanitized details. */
export function toHar(details: readonly RequestDetail[], creator: { readonly version: string; readonly proxyUrl: string | undefined }): unknown {
  return {
    log: {
      version: '1.2',
      creator: { name: 'pdscope', version: creator.version },
      entries: details.flatMap((detail) => [clientEntry(detail, creator.proxyUrl), ...detail.legs.map((leg) => legEntry(detail, leg))]),
    },
  };
}

function clientEntry(detail: RequestDetail, proxyUrl: string | undefined): unknown {
  const { row } = detail;
  const origin = proxyUrl !== undefined && URL.canParse(proxyUrl) ? new URL(proxyUrl).origin : 'http://pdscope.invalid';
  return entry({
    startedUnixMs: row.receivedAtUnixMs,
    url: `${origin}${requestPath(row) ?? '/'}`,
    status: row.status,
    requestHeaders: detail.clientHeaders,
    responseHeaders: undefined,
    requestBytes: row.requestBytes,
    responseBytes: row.responseBytes,
    requestBody: detail.clientBody,
    responseBody: undefined,
    firstByteMs: row.ttftMs,
    endMs: row.e2elMs,
    comment: `client, ${row.requestId}, ${row.state}${row.error === undefined ? '' : `: ${row.error.message}`}`,
    extra: { _requestId: row.requestId, _phases: row.phases, _route: row.route, ...(detail.ttft !== undefined && { _ttft: detail.ttft }) },
  });
}

function legEntry({ row }: RequestDetail, leg: LegView): unknown {
  const since = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : ms - leg.sentMs);
  return entry({
    startedUnixMs: row.receivedAtUnixMs + leg.sentMs,
    url: leg.url,
    status: leg.status,
    requestHeaders: leg.requestHeaders,
    responseHeaders: leg.responseHeaders,
    requestBytes: leg.requestBytes,
    responseBytes: leg.responseBytes,
    requestBody: leg.requestBody,
    responseBody: leg.responseBody,
    firstByteMs: since(leg.firstByteMs),
    endMs: since(leg.endMs),
    comment: `${leg.kind} leg on ${leg.instanceName}, attempt ${leg.attempt}, ${leg.outcome}`,
    extra: {
      _requestId: row.requestId,
      _leg: leg.kind,
      _instance: leg.instanceName,
      ...(leg.kvTransferParamsSent !== undefined && { _kvTransferParamsSent: leg.kvTransferParamsSent }),
      ...(leg.kvTransferParamsReceived !== undefined && { _kvTransferParamsReceived: leg.kvTransferParamsReceived }),
    },
  });
}

function entry(input: EntryInput): unknown {
  const { firstByteMs, endMs } = input;
  const wait = firstByteMs ?? endMs;
  const receive = firstByteMs === undefined || endMs === undefined ? undefined : endMs - firstByteMs;
  return {
    startedDateTime: new Date(input.startedUnixMs).toISOString(),
    time: endMs ?? UNKNOWN,
    request: {
      method: 'POST',
      url: input.url,
      httpVersion: 'HTTP/1.1',
      cookies: [],
      headers: headerList(input.requestHeaders),
      queryString: [],
      headersSize: UNKNOWN,
      bodySize: input.requestBytes,
      ...(input.requestBody !== undefined && { postData: { mimeType: 'application/json', text: input.requestBody.text, ...cutNote(input.requestBody) } }),
    },
    response: {
      // 0 is what HAR viewers take for "no response".
      status: input.status ?? 0,
      statusText: '',
      httpVersion: 'HTTP/1.1',
      cookies: [],
      headers: headerList(input.responseHeaders ?? {}),
      content: {
        size: input.responseBytes,
        mimeType: mimeType(input.responseHeaders),
        ...(input.responseBody !== undefined && { text: input.responseBody.text, ...cutNote(input.responseBody) }),
      },
      redirectURL: '',
      headersSize: UNKNOWN,
      bodySize: input.responseBytes,
    },
    cache: {},
    timings: { blocked: UNKNOWN, dns: UNKNOWN, connect: UNKNOWN, ssl: UNKNOWN, send: 0, wait: wait ?? UNKNOWN, receive: receive ?? UNKNOWN },
    comment: input.comment,
    ...input.extra,
  };
}

function headerList(headers: Readonly<Record<string, string>>): readonly { readonly name: string; readonly value: string }[] {
  return Object.entries(headers).map(([name, value]) => ({ name, value }));
}

function mimeType(headers: Readonly<Record<string, string>> | undefined): string {
  const found = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === 'content-type');
  return found?.[1] ?? '';
}

function cutNote(body: CapturedBody): { readonly comment?: string } {
  return body.isCut ? { comment: `cut: ${body.text.length} of ${body.bytes} bytes` } : {};
}
