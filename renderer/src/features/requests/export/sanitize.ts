/** A request detail as it may be exported: secrets replaced always, prompts and completions only when asked for. */
import type { CapturedBody, LegView, RequestDetail } from '#shared/request.ts';
import { redactHeaders, redactJson, redactUrl } from './redact.ts';

export interface SanitizeOptions {
  /** Include captured bodies (prompts and completions). */
  readonly withBodies: boolean;
}

/** A copy that is safe to hand on. */
export function sanitizeDetail(detail: RequestDetail, options: SanitizeOptions): RequestDetail {
  const { clientBody, ...rest } = detail;
  return {
    ...rest,
    clientHeaders: redactHeaders(detail.clientHeaders),
    ...(options.withBodies && clientBody !== undefined && { clientBody: redactBody(clientBody) }),
    legs: detail.legs.map((leg) => sanitizeLeg(leg, options)),
  };
}

function sanitizeLeg(leg: LegView, options: SanitizeOptions): LegView {
  const { requestBody, responseBody, kvTransferParamsSent, kvTransferParamsReceived, ...rest } = leg;
  return {
    ...rest,
    url: redactUrl(leg.url),
    requestHeaders: redactHeaders(leg.requestHeaders),
    ...(leg.responseHeaders !== undefined && { responseHeaders: redactHeaders(leg.responseHeaders) }),
    ...(kvTransferParamsSent !== undefined && { kvTransferParamsSent: redactJson(kvTransferParamsSent) }),
    ...(kvTransferParamsReceived !== undefined && { kvTransferParamsReceived: redactJson(kvTransferParamsReceived) }),
    ...(options.withBodies && requestBody !== undefined && { requestBody: redactBody(requestBody) }),
    ...(options.withBodies && responseBody !== undefined && { responseBody: redactBody(responseBody) }),
  };
}

/** Secret-named fields of a JSON body; other text (SSE, a cut body) has no fields to look at and stays. */
function redactBody(body: CapturedBody): CapturedBody {
  try {
    return { ...body, text: JSON.stringify(redactJson(JSON.parse(body.text))) };
  } catch {
    return body;
  }
}
