/** HTTP client of a control port, for the command line. */
import { errorMessage, PdscopeError, type ErrorBody } from '#shared/errors.ts';
import { controlDir, readControlFiles } from './control-file.ts';
import type { OperationListing } from './operation-routes.ts';

export interface Control {
  /** e.g. `http://127.0.0.1:7080`. */
  readonly url: string;
  readonly token: string;
}

/** Finds whom to ask. Throws PdscopeError `bad_usage` when nothing fits. */
export async function findControl(
  flags: { readonly control?: string; readonly token?: string },
  env: Readonly<Record<string, string | undefined>>,
): Promise<Control> {
  const running = await readControlFiles(controlDir(env));
  const url = flags.control === undefined ? undefined : originOf(flags.control);
  const found = url === undefined ? running.at(0) : running.find((file) => file.url === url);
  const target = url ?? found?.url;
  if (target === undefined) {
    throw new PdscopeError('bad_usage', 'No pdscope of this user runs on this machine. Start one with pdscope serve, or give --control and --token.');
  }
  const token = flags.token ?? env['PDSCOPE_TOKEN'] ?? found?.token;
  if (token === undefined) {
    throw new PdscopeError('bad_usage', `No token for ${target}: give --token, or set PDSCOPE_TOKEN here and where pdscope serve runs.`);
  }
  return { url: target, token };
}

/** Runs an operation; `input` is JSON text. Throws the engine's PdscopeError. */
export async function callOperation(control: Control, operation: string, input: string): Promise<unknown> {
  let body: unknown;
  try {
    body = JSON.parse(input);
  } catch (error) {
    throw new PdscopeError('bad_usage', `The input is not JSON (${errorMessage(error)}): ${input.slice(0, 200)}`);
  }
  const { value } = await ask<{ readonly value: unknown }>(control, 'POST', `/api/operations/${encodeURIComponent(operation)}`, body);
  return value;
}

export async function listOperations(control: Control): Promise<readonly OperationListing[]> {
  const { operations } = await ask<{ readonly operations: readonly OperationListing[] }>(control, 'GET', '/api/operations');
  return operations;
}

/** A link that signs one browser in. */
export async function newLoginLink(control: Control): Promise<string> {
  const { url } = await ask<{ readonly url: string }>(control, 'POST', '/api/login-links', {});
  return url;
}

async function ask<T>(control: Control, method: 'GET' | 'POST', path: string, body?: unknown): Promise<T> {
  const response = await fetch(`${control.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${control.token}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
    redirect: 'error',
    ...(body !== undefined && { body: JSON.stringify(body) }),
  }).catch((error: unknown) => {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    throw new PdscopeError('control_unreachable', `Cannot reach ${control.url}: ${errorMessage(cause)}`, { cause: error, retryable: true });
  });
  const text = await response.text();
  const answer = parseAnswer(text);
  if (response.ok && answer !== undefined) return answer as T;
  const error = (answer as { readonly error?: ErrorBody } | undefined)?.error;
  if (error !== undefined) throw PdscopeError.fromBody(error);
  throw new PdscopeError('control_answer', `${control.url} answered ${response.status} with something other than pdscope's JSON; is it the control port?`);
}

function parseAnswer(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function originOf(address: string): string {
  const url = address.includes('://') ? address : `http://${address}`;
  if (!URL.canParse(url) || !/^https?:$/u.test(new URL(url).protocol)) {
    throw new PdscopeError('bad_usage', `"${address}" is not an address; write http://127.0.0.1:7080.`);
  }
  return new URL(url).origin;
}
