/** Makes headers fit to be shown and exported: secrets are replaced by a mark, whoever sent them. */

type Headers = Readonly<Record<string, string | string[] | undefined>>;

const SECRET = /^(?:proxy-)?authorization$|cookie|api-?key|secret|password|(?:^|-)token$/i;
const MARK = '[redacted]';
const MAX_HEADERS = 100;
const MAX_VALUE_CHARS = 4096;

export function redactHeaders(headers: Headers): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers).slice(0, MAX_HEADERS)) {
    if (value === undefined) continue;
    const text = Array.isArray(value) ? value.join(', ') : value;
    result[name] = SECRET.test(name) ? MARK : text.slice(0, MAX_VALUE_CHARS);
  }
  return result;
}
