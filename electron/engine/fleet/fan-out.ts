/**
 * One call to many instances, each answer reported by itself: a profiler that only some have is no failure of the call.
 * vLLM answers `/start_profile` and `/stop_profile` with an empty 200, and with 404 when no profiler is configured
 * (vllm/entrypoints/serve/profile/api_router.py).
 */
import { PdscopeError, errorMessage } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { InstanceAnswer } from '#shared/operations.ts';
import type { Instance } from './instance.ts';

/** Writing a profile out can take long; vLLM's MoRIIO toy proxy allows as much. */
const TIMEOUT_MS = 60_000;
const MAX_MESSAGE_CHARS = 300;
/** What is read of an answer, for its message. */
const MAX_ANSWER_BYTES = 64 * 1024;

export interface FanOutOptions {
  /** Sent as it is. */
  readonly authorization: string | undefined;
}

/** POSTs an empty object to `path` of each instance at the same time. Never rejects. */
export function postToInstances(instances: readonly Instance[], path: string, options: FanOutOptions): Promise<InstanceAnswer[]> {
  return Promise.all(instances.map((instance) => postTo(instance, path, options)));
}

/** The instances named by id or name, without regard to case; all when none is named. Throws PdscopeError `instance_not_found`. */
export function instancesNamed(instances: readonly Instance[], names: readonly (InstanceId | string)[] | undefined): readonly Instance[] {
  if (names === undefined) return instances;
  return names.map((name) => {
    const wanted = name.toLowerCase();
    const found = instances.find((instance) => instance.id === wanted || instance.name.toLowerCase() === wanted || instance.origin === wanted);
    if (found !== undefined) return found;
    const known = instances.map((instance) => instance.name).join(', ');
    throw new PdscopeError('instance_not_found', `There is no instance "${name}" in the fleet; there are: ${known === '' ? 'none' : known}.`);
  });
}

async function postTo(instance: Instance, path: string, { authorization }: FanOutOptions): Promise<InstanceAnswer> {
  const about = { instance: instance.id, name: instance.name, url: instance.origin };
  try {
    const { statusCode: status, body } = await instance.pool.request({
      path,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(authorization !== undefined && { authorization }) },
      body: '{}',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const message = (await beginningOf(body)).slice(0, MAX_MESSAGE_CHARS);
    if (status >= 200 && status < 300) return { ...about, outcome: 'ok', status };
    if (status === 404) return { ...about, outcome: 'unsupported', status, message: 'no such route: start vLLM with a profiler (--profiler-config)' };
    return { ...about, outcome: 'failed', status, message };
  } catch (error) {
    const isTimeout = error instanceof Error && error.name === 'TimeoutError';
    return { ...about, outcome: 'failed', message: isTimeout ? `no answer within ${TIMEOUT_MS / 1000} s` : errorMessage(error) };
  }
}

async function beginningOf(body: AsyncIterable<unknown>): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of body) {
    const chunk = part as Buffer;
    parts.push(chunk);
    bytes += chunk.length;
    // Leaving the loop destroys the body: an answer without end costs its connection.
    if (bytes >= MAX_ANSWER_BYTES) break;
  }
  return Buffer.concat(parts).toString('utf8');
}
