/**
 * One bounded POST to an engine's helper routes (tokenize, detokenize, render): size-limited, time-limited, on connections
 * of its own, so that it never takes one from a leg. An instance without a route is not asked for it again for a while.
 */
import { Agent, request } from 'undici';
import { errorMessage } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { Instance } from '../fleet/instance.ts';

export interface CallOptions {
  /** Longest time for the whole exchange, ms. Default 3000. */
  readonly timeoutMs?: number;
  /** Default 16 MiB. */
  readonly maxAnswerBytes?: number;
}

export interface CallRequest {
  readonly body: Buffer | string;
  /** Sent as it is. */
  readonly authorization: string | undefined;
  /** Reads no further than a member that nobody needs, with its quotes, and closes what is open there with `close`. */
  readonly cut?: { readonly before: string; readonly close: string };
}

/** `missing`: the engine has no such route. `refused`: it took the route and would not do it. */
export type CallAnswer =
  | { readonly ok: true; readonly json: unknown }
  | { readonly ok: false; readonly why: 'missing' | 'refused' | 'failed'; readonly reason: string };

const MISSING_STATUS: ReadonlySet<number> = new Set([404, 405, 501]);
const ASK_AGAIN_MS = 60_000;
const MIB = 1024 * 1024;

export class EngineCall {
  readonly #agent: Agent;
  readonly #options: Required<CallOptions>;
  /** When routes may be asked for again, by instance and path. Bounded by the fleet's history times three paths. */
  readonly #missing = new Map<string, number>();

  constructor(options: CallOptions = {}) {
    this.#options = { timeoutMs: options.timeoutMs ?? 3000, maxAnswerBytes: options.maxAnswerBytes ?? 16 * MIB };
    this.#agent = new Agent({ allowH2: false, autoSelectFamily: true, connect: { timeout: this.#options.timeoutMs }, connections: 4, pipelining: 1 });
  }

  /** Whether the instance was found without this route just now. */
  lacks(instance: Instance, path: string): boolean {
    const until = this.#missing.get(keyOf(instance.id, path));
    return until !== undefined && until > performance.now();
  }

  /** Never rejects. */
  async post(instance: Instance, path: string, { body, authorization, cut }: CallRequest): Promise<CallAnswer> {
    const { timeoutMs, maxAnswerBytes } = this.#options;
    try {
      const answer = await request(`${instance.origin}${path}`, {
        method: 'POST',
        dispatcher: this.#agent,
        headers: { 'content-type': 'application/json', ...(authorization !== undefined && { authorization }) },
        body,
        signal: AbortSignal.timeout(timeoutMs),
      });
      const read = await readText(answer.body, maxAnswerBytes, answer.statusCode === 200 ? cut?.before : undefined);
      if (read === undefined) return { ok: false, why: 'failed', reason: `${path} on ${instance.name} answered more than ${maxAnswerBytes} bytes` };
      const text = read.isCut && cut !== undefined ? read.text.replace(/,\s*$/u, '') + cut.close : read.text;
      const { statusCode: status } = answer;
      if (MISSING_STATUS.has(status)) {
        this.#remember(instance.id, path);
        return { ok: false, why: 'missing', reason: `${instance.name} has no ${path} (${status})` };
      }
      if (status !== 200) return { ok: false, why: status < 500 ? 'refused' : 'failed', reason: `${path} on ${instance.name} answered ${status}: ${text.slice(0, 200)}` };
      return { ok: true, json: JSON.parse(text) as unknown };
    } catch (error) {
      const isTimeout = error instanceof Error && error.name === 'TimeoutError';
      return { ok: false, why: 'failed', reason: `${path} on ${instance.name}: ${isTimeout ? `no answer within ${timeoutMs / 1000} s` : errorMessage(error)}` };
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  #remember(instance: InstanceId, path: string): void {
    const nowMs = performance.now();
    for (const [key, until] of this.#missing) if (until <= nowMs) this.#missing.delete(key);
    this.#missing.set(keyOf(instance, path), nowMs + ASK_AGAIN_MS);
  }
}

/** Up to `before`, when it is there. Undefined: too long. Leaving early destroys the body, and with it the connection. */
async function readText(body: AsyncIterable<unknown>, maxBytes: number, before: string | undefined): Promise<{ readonly text: string; readonly isCut: boolean } | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  let tail = Buffer.alloc(0);
  for await (const part of body) {
    const chunk = part as Buffer;
    parts.push(chunk);
    if (before !== undefined) {
      // It may begin in a chunk before.
      const window = Buffer.concat([tail, chunk]);
      const at = window.indexOf(before);
      if (at >= 0) return { text: Buffer.concat(parts).subarray(0, bytes - tail.length + at).toString('utf8'), isCut: true };
      tail = window.subarray(-(before.length - 1));
    }
    bytes += chunk.length;
    if (bytes > maxBytes) return undefined;
  }
  return { text: Buffer.concat(parts).toString('utf8'), isCut: false };
}

function keyOf(instance: InstanceId, path: string): string {
  return `${instance} ${path}`;
}
