/**
 * The admin routes of vLLM's disagg_proxy_demo.py, in its shapes: `{"type","instance"}` in, `{"message"}` out, the key
 * in `x-api-key`. `/instances/remove` is the twin of `/instances/add`. Without a configured key they are closed.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import { ROLES, type Role } from '#shared/vocabulary.ts';
import type { Instance } from '../fleet/instance.ts';
import { parseBody } from './client-request.ts';
import { ProxyError } from './proxy-error.ts';
import { readBody } from './read-body.ts';
import { sendJson } from './respond.ts';

export interface ProxyAdmin {
  /** `ADMIN_API_KEY`; without it the routes answer 503. */
  readonly apiKey?: string;
  /** Probes and joins. Rejects with PdscopeError that says what is wrong with the instance. */
  add(spec: InstanceSpec): Promise<Instance>;
  /** Takes an instance out. Rejects with PdscopeError when there is none, or when it must not leave now. */
  remove(address: string, role: Role): Promise<unknown>;
}

const MAX_ADMIN_BODY_BYTES = 64 * 1024;

const AdminBodySchema = z.object({
  type: z.enum(ROLES, { error: `type must be one of ${ROLES.join(', ')}` }),
  instance: z.string({ error: 'instance must be a string like "host:port"' }).min(1, 'instance must not be empty').max(2048),
});

export type AdminAction = 'add' | 'remove';

/** Serves one admin request; throws ProxyError for everything but success. */
export async function handleAdmin(action: AdminAction, admin: ProxyAdmin, req: IncomingMessage, res: ServerResponse): Promise<void> {
  checkKey(admin.apiKey, req.headers['x-api-key']);
  // The demo proxy compares the whole field, parameters included.
  if (req.headers['content-type']?.toLowerCase() !== 'application/json') {
    throw new ProxyError(415, 'unsupported_media_type', "Unsupported Media Type: Only 'application/json' is allowed");
  }
  const { json } = parseBody(await readBody(req, MAX_ADMIN_BODY_BYTES));
  const parsed = AdminBodySchema.safeParse(json);
  if (!parsed.success) {
    const message = parsed.error.issues.map((issue) => issue.message).join('; ');
    throw new ProxyError(400, 'invalid_instance', `Expected {"type": "prefill" | "decode", "instance": "host:port"}: ${message}.`);
  }
  const { type, instance } = parsed.data;
  try {
    if (action === 'add') await admin.add({ role: type, url: instance });
    else await admin.remove(instance, type);
  } catch (error) {
    throw toProxyError(error);
  }
  const done = action === 'add' ? `Added ${instance} to` : `Removed ${instance} from`;
  sendJson(res, 200, JSON.stringify({ message: `${done} ${type}_instances.` }));
}

function checkKey(expected: string | undefined, given: string | string[] | undefined): void {
  if (expected === undefined || expected === '') {
    const message = 'The instance routes are closed: start pdscope with ADMIN_API_KEY set to open them.';
    throw new ProxyError(503, 'admin_key_not_configured', message);
  }
  if (!isSameKey(given, expected)) throw new ProxyError(403, 'invalid_api_key', 'Forbidden: Invalid API Key.');
}

/** Whether a request carries the admin key; never when none is configured. */
export function hasAdminKey(expected: string | undefined, req: IncomingMessage): boolean {
  return expected !== undefined && expected !== '' && isSameKey(req.headers['x-api-key'], expected);
}

/** Digests have one length, so the comparison takes the same time for every wrong key. */
function isSameKey(given: string | string[] | undefined, expected: string): boolean {
  return typeof given === 'string' && timingSafeEqual(digest(given), digest(expected));
}

function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** The demo proxy answers every refusal of an instance with 400. */
function toProxyError(error: unknown): ProxyError {
  if (error instanceof PdscopeError) return new ProxyError(400, error.code, error.message, { cause: error });
  return new ProxyError(500, 'internal_error', `pdscope failed: ${errorMessage(error)}`, { cause: error });
}
