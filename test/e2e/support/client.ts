/** A client of the proxy, as programs talk to it. */
import type { HeadlessHost } from './headless-host.ts';

export interface ClientAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** Sends one chat completion through the proxy; `extra` goes into the body beside model and message. */
export async function chat(host: HeadlessHost, requestId: string, extra: Readonly<Record<string, unknown>> = {}): Promise<ClientAnswer> {
  const { proxyUrl, instances } = await host.call('state.get', {});
  if (proxyUrl === undefined) throw new Error('the proxy is not listening');
  const response = await fetch(`${proxyUrl}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': requestId },
    body: JSON.stringify({ model: instances[0]?.models[0], messages: [{ role: 'user', content: 'Say something short.' }], max_tokens: 4, ...extra }),
  });
  return { status: response.status, body: await response.json() };
}
