/**
 * Turns what a person typed into the origin of an instance. Strict on purpose: a wrong address must be refused here with
 * words that say what to change, not fail later as a connection error. Resolves no names and opens no sockets.
 */
import { isIPv4, isIPv6 } from 'node:net';
import { PdscopeError } from '#shared/errors.ts';

export interface ParsedAddress {
  /** Scheme, host and port as `URL.origin` writes them: lower case, no path, default ports left out. */
  readonly origin: string;
  /** Lower case; IPv6 without brackets. */
  readonly host: string;
  /** 1..65535. */
  readonly port: number;
  readonly isTls: boolean;
}

const SCHEME = /^([a-z][a-z0-9+.-]*):\/\//i;
/** Letters, digits, `-` and `_` (container names have it) between dots; a closing dot is allowed. */
const HOST_NAME = /^(?!-)[\p{L}\p{N}_-]{1,63}(?:\.(?!-)[\p{L}\p{N}_-]{1,63})*\.?$/u;

/**
 * Parses `host:port` or `http(s)://host:port`; IPv6 in brackets, host names allowed, surrounding blanks ignored.
 * A port is required, except after `https://` where 443 is meant.
 * @throws PdscopeError `address_empty`, `address_whitespace`, `address_scheme`, `address_credentials`, `address_path`,
 * `address_ipv6`, `address_host`, `address_no_port`, `address_port`.
 */
export function parseAddress(text: string): ParsedAddress {
  const trimmed = text.trim();
  if (trimmed === '') throw new PdscopeError('address_empty', 'The address is empty: write host:port, for example 10.0.0.1:8100.');
  if (/\s/.test(trimmed)) throw new PdscopeError('address_whitespace', `"${trimmed}" has a blank inside: write one address as host:port.`);

  const scheme = SCHEME.exec(trimmed)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    throw new PdscopeError('address_scheme', `"${trimmed}" uses ${scheme}://: instances are reached over http:// or https:// only.`);
  }
  const rest = scheme === undefined ? trimmed : trimmed.slice(scheme.length + 3);
  const authority = takeAuthority(trimmed, rest);
  const { host, portText } = splitHostPort(trimmed, authority);
  const isTls = scheme === 'https';
  const port = parsePort(trimmed, host, portText, scheme);

  const bracketed = host.includes(':') ? `[${host}]` : host;
  const url = toUrl(trimmed, `${isTls ? 'https' : 'http'}://${bracketed}:${port}`);
  return { origin: url.origin, host: url.hostname.replace(/^\[|\]$/g, ''), port, isTls };
}

function takeAuthority(whole: string, rest: string): string {
  const end = rest.search(/[/?#\\]/);
  const authority = end === -1 ? rest : rest.slice(0, end);
  const tail = end === -1 ? '' : rest.slice(end);
  if (authority.includes('@')) {
    throw new PdscopeError('address_credentials', 'The address contains a user name or password before "@": write host:port only; API keys come from the client or OPENAI_API_KEY.');
  }
  if (tail !== '' && tail !== '/') {
    throw new PdscopeError('address_path', `"${whole}" has a path, query or fragment ("${tail}"): write the origin only, for example ${authority === '' ? '10.0.0.1:8100' : authority}.`);
  }
  return authority;
}

function splitHostPort(whole: string, authority: string): { host: string; portText: string | undefined } {
  if (authority.startsWith('[')) {
    const close = authority.indexOf(']');
    const host = close === -1 ? '' : authority.slice(1, close);
    const after = authority.slice(close + 1);
    if (!isIPv6(host) || host.includes('%') || (after !== '' && !after.startsWith(':'))) {
      throw new PdscopeError('address_ipv6', `"${whole}" is not a valid IPv6 address: write [address]:port without a zone, for example [fd00::1]:8100.`);
    }
    return { host, portText: after === '' ? undefined : after.slice(1) };
  }
  const parts = authority.split(':');
  if (parts.length > 2) {
    throw new PdscopeError('address_ipv6', `"${whole}" has more than one colon: an IPv6 address goes in brackets, for example [fd00::1]:8100.`);
  }
  const host = parts[0] ?? '';
  checkHost(whole, host);
  return { host, portText: parts[1] };
}

function checkHost(whole: string, host: string): void {
  if (host === '') throw new PdscopeError('address_host', `"${whole}" has no host: write host:port, for example 10.0.0.1:8100.`);
  if (/^[\d.]+$/.test(host) && !isIPv4(host)) {
    const hint = /^\d+$/.test(host) ? 'only a port was given' : 'an IPv4 address has four numbers up to 255';
    throw new PdscopeError('address_host', `"${host}" is not a host: ${hint}. Write host:port, for example 10.0.0.1:8100.`);
  }
  if (host.length > 253 || !HOST_NAME.test(host)) {
    throw new PdscopeError('address_host', `"${host}" is not a valid host name.`);
  }
}

function parsePort(whole: string, host: string, text: string | undefined, scheme: string | undefined): number {
  if (text === undefined || text === '') {
    if (scheme === 'https' && text === undefined) return 443;
    const shown = host.includes(':') ? `[${host}]` : host;
    throw new PdscopeError('address_no_port', `"${whole}" has no port: write ${scheme === undefined ? '' : `${scheme}://`}${shown}:8000 (vLLM's default port is 8000).`);
  }
  const port = /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(port)) throw new PdscopeError('address_port', `"${text}" is not a port: a port is a number from 1 to 65535.`);
  if (port < 1 || port > 65_535) throw new PdscopeError('address_port', `Port ${text} is out of range: a port is a number from 1 to 65535.`);
  return port;
}

function toUrl(whole: string, text: string): URL {
  try {
    return new URL(text);
  } catch (error) {
    throw new PdscopeError('address_host', `"${whole}" is not a valid address: write host:port, for example 10.0.0.1:8100.`, { cause: error });
  }
}
