/**
 * Asks engines to publish the blocks that a request found in the cache, too: `vllm_xargs: {"kv_cache_report_mode":
 * "full"}` (vLLM since 2026-07-09; older ones ignore it). On the token route the arguments sit in
 * `sampling_params.extra_args`. The client's own value wins.
 */
import type { Api } from '#shared/vocabulary.ts';
import type { ClientRequest } from './client-request.ts';
import { editMembers, memberValue, scanMembers, type JsonMember } from './json-members.ts';
import { describeRewrite, type Rewrite } from './prefill-body.ts';

const FIELD = 'kv_cache_report_mode';
const VALUE = '"full"';
const PATHS: Readonly<Record<Api, readonly string[]>> = {
  chat: ['vllm_xargs'],
  completions: ['vllm_xargs'],
  generate: ['sampling_params', 'extra_args'],
};
const EMPTY_OBJECT = Buffer.from('{}');
const NO_MEMBERS: readonly JsonMember[] = [];
/** Wherever some route takes extra arguments; forwarded ones too. */
const PLACES: readonly (readonly string[])[] = [['vllm_xargs'], ['sampling_params', 'extra_args'], ['sampling_params', 'vllm_xargs']];

export interface ReportingRequest {
  readonly request: ClientRequest;
  readonly rewrite: Rewrite;
}

/** Whether a client's body asks for announcements itself. */
export function asksForReport(json: Readonly<Record<string, unknown>>): boolean {
  return PLACES.some((path) => {
    let at: unknown = json;
    for (const key of [...path, FIELD]) {
      if (typeof at !== 'object' || at === null) return false;
      at = (at as Readonly<Record<string, unknown>>)[key];
    }
    return at === 'full';
  });
}

/** undefined when the client set it, or sent something other than an object there. */
export function withCacheReport(request: ClientRequest): ReportingRequest | undefined {
  const path = PATHS[request.api];
  const body = withField(request.body, request.members, path);
  const members = body === undefined ? undefined : scanMembers(body);
  if (body === undefined || members === undefined) return undefined;
  return { request: { ...request, body, members }, rewrite: describeRewrite(`${path.join('.')}.${FIELD}`, undefined, VALUE) };
}

function withField(json: Buffer, members: readonly JsonMember[], path: readonly string[]): Buffer | undefined {
  const [key, ...rest] = path;
  if (key === undefined) return members.some((member) => member.key === FIELD) ? undefined : editMembers(json, members, new Map([[FIELD, VALUE]]));
  const own = memberValue(json, members, key);
  const isAbsent = own === undefined || own.toString('latin1') === 'null';
  const inner = isAbsent ? EMPTY_OBJECT : own;
  const innerMembers = isAbsent ? NO_MEMBERS : scanMembers(inner);
  const edited = innerMembers === undefined ? undefined : withField(inner, innerMembers, rest);
  return edited === undefined ? undefined : editMembers(json, members, new Map([[key, edited]]));
}
