/** Lines to copy: how a client talks to the proxy, and how to start pdscope on real instances. */

/** One streamed chat completion through the proxy. `baseUrl` ends in `/v1`. */
export function curlExample(baseUrl: string, model: string | undefined): string {
  const body = JSON.stringify({ model: model ?? 'MODEL', stream: true, messages: [{ role: 'user', content: 'Hello' }] });
  return `curl -N ${baseUrl}/chat/completions -H 'Content-Type: application/json' -d '${body}'`;
}

export const SERVE_EXAMPLE = 'npm start -- serve --prefill 10.0.0.1:8100 --decode 10.0.0.2:8200';
