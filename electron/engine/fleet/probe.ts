/**
 * Asks one address what it is: `/health`, `/v1/models`, `/version`, `/server_info`. Answers facts and, where it cannot join, the
 * reason in words. Knows nothing of the fleet: duplicates and other models are the fleet's questions.
 * Endpoints: vLLM `vllm/entrypoints/launchers/api_server/routers.py`; `/version` may be missing elsewhere.
 */
import type { Dispatcher } from 'undici';
import { z } from 'zod';
import { PdscopeError } from '#shared/errors.ts';
import type { ProbeResult } from '#shared/operations.ts';
import { describeConnectError, type ConnectFailure } from './connect-error.ts';
import { headerValue, httpGet, type GetAnswer } from './http-get.ts';
import { readServerInfo, type ServerFacts } from './server-info.ts';

export interface ProbeOptions {
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string>>;
  /** For each of the requests, milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** Why a probe failed, for machines; the words are in `problem`. */
export type ProbeFailure = 'unreachable' | 'unhealthy' | 'unauthorized' | 'redirect' | 'not-vllm';

export interface ProbeFindings extends ProbeResult {
  readonly failure?: ProbeFailure;
  /** Set when `failure` is `unreachable`. */
  readonly connectFailure?: ConnectFailure;
  /** The answers carried `x-pdscope-simulated: 1`. */
  readonly isSimulated: boolean;
  /** Absent when the engine does not run in development mode. */
  readonly server?: ServerFacts;
}

const MAX_ANSWER_BYTES = 1024 * 1024;
const MAX_MODELS = 1000;

const ModelsSchema = z.object({
  data: z.array(z.object({ id: z.string().max(1024), max_model_len: z.number().optional().catch(undefined) })),
});
const VersionSchema = z.object({ version: z.string().max(200) });

/** Probes `origin`. Never rejects: whatever goes wrong is in the answer. */
export async function probeOrigin(origin: string, options: ProbeOptions): Promise<ProbeFindings> {
  const startedMs = performance.now();
  let health: GetAnswer;
  try {
    health = await get(origin, '/health', options);
  } catch (error) {
    const described = describeConnectError(error);
    const text = error instanceof PdscopeError ? error.message : described.text;
    return {
      url: origin, isReachable: false, isHealthy: false, models: [], isSimulated: false, canForce: false,
      failure: 'unreachable', connectFailure: described.kind, problem: `${origin} cannot be reached: ${text}.`,
    };
  }
  const roundTripMs = performance.now() - startedMs;
  const [models, version, server] = await Promise.all([readModels(origin, options), readVersion(origin, options), readServerInfo(origin, options)]);
  const problem = judgeHealth(origin, health) ?? models.problem;
  return {
    url: origin,
    isReachable: true,
    isHealthy: health.status === 200,
    models: models.ids,
    roundTripMs,
    isSimulated: headerValue(health.headers, 'x-pdscope-simulated') === '1',
    ...(version !== undefined && { version }),
    ...(server !== undefined && { server }),
    ...(models.maxModelLen !== undefined && { maxModelLen: models.maxModelLen }),
    ...(problem !== undefined && { problem: problem.text, failure: problem.failure }),
    canForce: problem?.canForce ?? false,
  };
}

/**
 * The cheap check of the health loop: `/health` only.
 * @returns undefined when healthy, else the reason and whether it was a timeout (which may only mean busy).
 */
export async function checkHealth(origin: string, options: ProbeOptions): Promise<{ readonly text: string; readonly isTimeout: boolean } | undefined> {
  try {
    const answer = await get(origin, '/health', options);
    const problem = judgeHealth(origin, answer);
    return problem === undefined ? undefined : { text: problem.short, isTimeout: false };
  } catch (error) {
    if (error instanceof PdscopeError) return { text: error.message, isTimeout: false };
    const described = describeConnectError(error);
    return { text: described.text, isTimeout: described.kind === 'timeout' };
  }
}

interface Problem {
  readonly failure: ProbeFailure;
  readonly text: string;
  readonly short: string;
  readonly canForce: boolean;
}

function get(origin: string, path: string, options: ProbeOptions): Promise<GetAnswer> {
  return httpGet(`${origin}${path}`, { ...options, maxBytes: MAX_ANSWER_BYTES });
}

function judgeHealth(origin: string, answer: GetAnswer): Problem | undefined {
  if (answer.status === 200) return undefined;
  const status = answer.status;
  if (status >= 300 && status < 400) return redirect(origin, answer);
  if (status === 401 || status === 403) return unauthorized(origin, '/health', status);
  if (status === 404) {
    const short = 'GET /health answered 404: not a vLLM server?';
    return { failure: 'not-vllm', text: `${origin}: ${short}`, short, canForce: true };
  }
  const short = `GET /health answered ${status}`;
  return { failure: 'unhealthy', text: `${origin} is up but not healthy: ${short}.`, short, canForce: true };
}

function redirect(origin: string, answer: GetAnswer): Problem {
  const target = headerValue(answer.headers, 'location') ?? 'elsewhere';
  const short = `it redirects to ${target.slice(0, 200)}; redirects are not followed`;
  return { failure: 'redirect', text: `${origin} cannot join: ${short}. Give the final address.`, short, canForce: false };
}

function unauthorized(origin: string, path: string, status: number): Problem {
  const short = `GET ${path} answered ${status}: it wants an API key`;
  return { failure: 'unauthorized', text: `${origin}: ${short}. Set OPENAI_API_KEY where pdscope runs, or force if clients send their own.`, short, canForce: true };
}

interface ModelsAnswer {
  readonly ids: readonly string[];
  readonly maxModelLen?: number;
  readonly problem?: Problem;
}

async function readModels(origin: string, options: ProbeOptions): Promise<ModelsAnswer> {
  let answer: GetAnswer;
  try {
    answer = await get(origin, '/v1/models', options);
  } catch (error) {
    const text = error instanceof PdscopeError ? error.message : describeConnectError(error).text;
    return { ids: [], problem: notVllm(origin, `GET /v1/models failed: ${text}`) };
  }
  if (answer.status === 401 || answer.status === 403) return { ids: [], problem: unauthorized(origin, '/v1/models', answer.status) };
  if (answer.status >= 300 && answer.status < 400) return { ids: [], problem: redirect(origin, answer) };
  if (answer.status !== 200) return { ids: [], problem: notVllm(origin, `GET /v1/models answered ${answer.status}`) };
  const parsed = ModelsSchema.safeParse(parseJson(answer.text));
  if (!parsed.success) {
    const type = headerValue(answer.headers, 'content-type') ?? 'no content type';
    return { ids: [], problem: notVllm(origin, `GET /v1/models answered something that is not a model list (${type})`) };
  }
  const cards = parsed.data.data.slice(0, MAX_MODELS);
  if (cards.length === 0) return { ids: [], problem: notVllm(origin, 'GET /v1/models lists no model') };
  // Only base models carry max_model_len; adapters do not.
  const maxModelLen = cards.find((card) => card.max_model_len !== undefined)?.max_model_len;
  return { ids: cards.map((card) => card.id), ...(maxModelLen !== undefined && { maxModelLen }) };
}

function notVllm(origin: string, short: string): Problem {
  return { failure: 'not-vllm', text: `${origin} does not look like a vLLM server: ${short}.`, short, canForce: true };
}

async function readVersion(origin: string, options: ProbeOptions): Promise<string | undefined> {
  try {
    const answer = await get(origin, '/version', options);
    if (answer.status !== 200) return undefined;
    const parsed = VersionSchema.safeParse(parseJson(answer.text));
    return parsed.success ? parsed.data.version : undefined;
  } catch {
    // Optional: a server without a version can still serve. The other two questions tell whether it is reachable.
    return undefined;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
