/** Which conversation a request belongs to, and the request as engines may see it. */
import { cut, type ClientRequest } from '../../client-request.ts';
import { editMembers, memberValue, scanMembers } from '../../json-members.ts';
import { describeRewrite, type Rewrite } from '../../prefill-body.ts';
import { ProxyError } from '../../proxy-error.ts';
import { unchanged, type PullRequest } from '../nixl-pull.ts';

/** The body's field. pdscope's own: the Python frontend ignores unknown fields, others refuse them, so no leg gets it. */
const FIELD = 'conversation_id';
/** Used when the body has none. The second is also vLLM's own header for a session. */
const HEADERS = ['x-conversation-id', 'x-session-id'] as const;
const MAX_LENGTH = 256;

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
  return FIELD in request.json ? edited(unchanged(request), new Map([[FIELD, undefined]])) : unchanged(request);
}

/** The request with its answer asked for in one piece. */
export function withoutStream(pull: PullRequest): PullRequest {
  const edits = new Map<string, string | undefined>([['stream', 'false']]);
  if ('stream_options' in pull.request.json) edits.set('stream_options', undefined);
  const whole = edited(pull, edits);
  return { ...whole, request: { ...whole.request, isStream: false } };
}

/** @param edits JSON text by field, undefined to remove it. */
function edited({ request, rewrites }: PullRequest, edits: ReadonlyMap<string, string | undefined>): PullRequest {
  const body = editMembers(request.body, request.members, edits);
  const json: Record<string, unknown> = { ...request.json };
  const own: Rewrite[] = [];
  for (const [field, value] of edits) {
    own.push(describeRewrite(field, memberValue(request.body, request.members, field)?.toString('utf8', 0, 400), value));
    if (value === undefined) delete json[field];
    else json[field] = JSON.parse(value);
  }
  const members = scanMembers(body);
  if (members === undefined) throw new Error('an edited body is no JSON object any more');
  return { request: { ...request, body, json, members }, rewrites: [...rewrites, ...own] };
}
