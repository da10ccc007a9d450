/**
 * What may leave pdscope in a copied command or an exported file. Header values that authenticate are replaced, whatever
 * their case; hop-by-hop and length headers are left out of commands because the sender's client makes its own.
 */

export const REDACTED = '[redacted]';

/** RFC 9110 section 7.6.1, plus what any HTTP client sets by itself. */
const NOT_RESENT = new Set([
  'connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'te', 'trailer', 'upgrade', 'host', 'content-length', 'accept-encoding',
  'expect',
]);

const SECRET_NAME = /authorization|cookie|api[-_]?key|token|secret|password|credential|signature|^x-auth/iu;

/** Whether a header of this name carries a secret. Rather one too many: a header is rarely needed to understand. */
export function isSecretHeader(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** Whether a body field of this name carries a secret. `max_tokens`, `token_ids` and the like do not. */
export function isSecretField(name: string): boolean {
  return SECRET_NAME.test(name) && !/tokens|tokenizer|token_ids?$/iu.test(name);
}

/** Headers with secret values replaced. */
export function redactHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, isSecretHeader(name) ? REDACTED : value]));
}

/** Headers that make sense in a command: no secrets, nothing hop-by-hop. */
export function resendableHeaders(headers: Readonly<Record<string, string>>): readonly (readonly [name: string, value: string])[] {
  return Object.entries(headers).filter(([name]) => !NOT_RESENT.has(name.toLowerCase()) && !isSecretHeader(name));
}

/** True when the client sent credentials that a copied command must ask for again. */
export function hadCredentials(headers: Readonly<Record<string, string>>): boolean {
  return Object.keys(headers).some((name) => /^(?:authorization|x-api-key|api-key)$/iu.test(name));
}

/** A URL without user, password and secret query values; text that is no URL comes back as it is. */
export function redactUrl(url: string): string {
  if (!URL.canParse(url)) return url;
  const parsed = new URL(url);
  parsed.username = '';
  parsed.password = '';
  for (const name of parsed.searchParams.keys()) if (SECRET_NAME.test(name)) parsed.searchParams.set(name, REDACTED);
  return parsed.toString();
}

/** A JSON value with the values of secret-named fields replaced, at any depth. */
export function redactJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(redactJson);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, isSecretField(name) && typeof inner === 'string' ? REDACTED : redactJson(inner)]));
}
