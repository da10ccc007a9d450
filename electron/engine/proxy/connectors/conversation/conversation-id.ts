/** Which conversation a request belongs to, and the request as engines may see it. */
import { cut } from '../../../cut-text.ts';
import type { ClientRequest } from '../../client-request.ts';
import type { FieldEdits } from '../../prefill-body.ts';
import { ProxyError } from '../../proxy-error.ts';
import { unchanged, type PullRequest } from '../nixl-pull.ts';

/** The body's field. pdscope's own: the Python frontend ignores unknown fields, others refuse them, so no leg gets it. */
const FIELD = 'conversation_id';
/** Used when the body has none. The second is also vLLM's own header for a session. */
const HEADERS = ['x-conversation-id', 'x-session-id'] as const;
const MAX_LENGTH = 256;
const WITHOUT_FIELD: FieldEdits = new Map([[FIELD, undefined]]);

/** undefined: the request stands alone. Throws ProxyError 400 `bad_conversation_id`. */
export function conversationIdOf({ json, headers }: ClientRequest): string | undefined {
  const own = json[FIELD];
  if (own !== undefined && own !== null) return checked(typeof own === 'number' ? String(own) : own, `"${FIELD}" of the body`);
  for (const name of HEADERS) {
    const value = headers[name];
    if (typeof value === 'string' && value !== '') return checked(value, `the header ${name}`);
  }
  return undefined;
}

function checked(value: unknown, where: string): string {
  if (typeof value === 'string' && value.length > 0 && value.length <= MAX_LENGTH) return value;
  const got = typeof value === 'string' ? `a text of ${value.length} characters` : cut(JSON.stringify(value), 100);
  throw new ProxyError(400, 'bad_conversation_id', `${where} must be a text of 1 to ${MAX_LENGTH} characters, not ${got}.`, { isRequestFault: true });
}

/** The request without pdscope's own field. */
export function withoutConversationId(request: ClientRequest): PullRequest {
  return FIELD in request.json ? { request, also: WITHOUT_FIELD } : unchanged(request);
}

/** The request with its answer asked for in one piece. */
export function withoutStream({ request, also }: PullRequest): PullRequest {
  const edits = new Map<string, string | undefined>([...also, ['stream', 'false']]);
  return { request, also: 'stream_options' in request.json ? edits.set('stream_options', undefined) : edits };
}
