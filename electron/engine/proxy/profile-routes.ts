/**
 * POST /start_profile and /stop_profile: to all instances, or to those that the body names in `instances`. The answer
 * has the shape of vLLM's EPD example proxy (`encode`, `prefill`, `decode`: null where no instance of the role has a
 * profiler) and every instance's own outcome beside it.
 *
 * Profiling slows engines down, so it is no business of any inference client: the route takes clients of this machine
 * (where `vllm bench serve --profile` usually runs) and holders of the admin key. A page in a browser of this machine is
 * neither: browsers put an Origin on every POST, and no client of this route does.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceAnswer } from '#shared/operations.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import { instancesNamed, postToInstances } from '../fleet/fan-out.ts';
import { kindOfHost } from '../fleet/host-kind.ts';
import type { LegScheduler } from '../fleet/ports.ts';
import { hasAdminKey } from './admin-routes.ts';
import { parseBody } from './client-request.ts';
import { authorizationFor } from './headers.ts';
import { ProxyError } from './proxy-error.ts';
import { readBody } from './read-body.ts';
import { sendJson } from './respond.ts';

const MAX_BODY_BYTES = 64 * 1024;

export interface ProfileOptions {
  readonly scheduler: LegScheduler;
  readonly adminApiKey: string | undefined;
  readonly openaiApiKey: string | undefined;
}

export async function handleProfile(action: 'start' | 'stop', options: ProfileOptions, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { scheduler, adminApiKey, openaiApiKey } = options;
  if (!isOfThisMachine(req) && !hasAdminKey(adminApiKey, req)) {
    throw new ProxyError(403, 'forbidden', 'Profiling is controlled from this machine, or with the admin key (ADMIN_API_KEY) in x-api-key.');
  }
  const body = await readBody(req, MAX_BODY_BYTES);
  const answers = await postToInstances(named(scheduler, body), `/${action}_profile`, { authorization: authorizationFor(req.headers, openaiApiKey) });
  const roleOf = new Map(scheduler.list().map((instance) => [instance.id, instance.role]));
  const of = (kind: LegKind): readonly InstanceAnswer[] | null => {
    const own = answers.filter(({ instance, outcome }) => outcome !== 'unsupported' && fits(roleOf.get(instance), kind));
    return own.length === 0 ? null : own;
  };
  const isAnyFailed = answers.some(({ outcome }) => outcome === 'failed');
  const isNone = answers.every(({ outcome }) => outcome === 'unsupported');
  const status = isNone ? 503 : isAnyFailed ? 502 : 200;
  const error = isNone
    ? { message: 'No instance has a profiler: start vLLM with --profiler-config.', type: 'service_unavailable_error', param: null, code: 'no_profiler' }
    : undefined;
  sendJson(res, status, JSON.stringify({ encode: of('encode'), prefill: of('prefill'), decode: of('decode'), instances: answers, ...(error !== undefined && { error }) }));
}

function isOfThisMachine({ socket, headers }: IncomingMessage): boolean {
  return kindOfHost(socket.remoteAddress ?? '') === 'loopback' && headers.origin === undefined;
}

function fits(role: string | undefined, kind: LegKind): boolean {
  return role === kind || (role === 'both' && kind !== 'encode');
}

/** An empty body, or one without `instances`, means all. Other fields are the reference's own and say nothing here. */
function named(scheduler: LegScheduler, body: Buffer) {
  const all = scheduler.list();
  if (body.length === 0) return all;
  const names = parseBody(body).json['instances'];
  if (names === undefined || names === null) return all;
  if (!Array.isArray(names) || !names.every((name): name is string => typeof name === 'string')) {
    throw new ProxyError(400, 'bad_request', '`instances` must be a list of names or ids, e.g. {"instances": ["P0", "D1"]}.');
  }
  try {
    return instancesNamed(all, names);
  } catch (error) {
    if (error instanceof PdscopeError) throw new ProxyError(404, error.code, error.message, { cause: error });
    throw error;
  }
}
