/**
 * Who may speak to the control port, judged by `Host` and `Origin` before anything else is looked at.
 *
 * Threats: DNS rebinding (a page of evil.example whose name now resolves to 127.0.0.1 has `Host: evil.example:7080`) and
 * cross-site requests and sockets (another page's `Origin`). Both headers are parsed and compared exactly, never searched.
 * The port of `Host` is free for loopback names: through `ssh -L 9000:127.0.0.1:7080` the browser says `localhost:9000`,
 * and a browser cannot lie about it. `Origin` must then be that very host and port, so a page on another port of the
 * same machine stays outside.
 */
import { isIP } from 'node:net';
import { hostname as machineName } from 'node:os';
import { kindOfHost } from '#engine/fleet/host-kind.ts';

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];

export interface OriginGuard {
  isAllowedHost(host: string | undefined): boolean;
  /** Whether an `Origin` header names the page that this host serves. */
  isOwnOrigin(origin: string, host: string): boolean;
}

/** `name[:port]` exactly as browsers write it; undefined for anything else (user info, paths, spaces, upper-case tricks). */
export function parseHost(host: string): { readonly name: string; readonly port: number } | undefined {
  if (!URL.canParse(`http://${host}`)) return undefined;
  const url = new URL(`http://${host}`);
  const isBare = url.username === '' && url.password === '' && url.pathname === '/' && url.search === '' && url.hash === '';
  // Browsers leave out port 80; a client that writes it means the same.
  if (!isBare || (url.host !== host.toLowerCase() && `${url.host}:80` !== host.toLowerCase())) return undefined;
  return { name: url.hostname, port: url.port === '' ? 80 : Number(url.port) };
}

/**
 * `bindHost`: the address the server listens on. Beyond loopback, IP literals and the machine's own name are allowed as
 * well: a rebinding attack needs a name of its own.
 */
export function createOriginGuard(bindHost: string): OriginGuard {
  const isRemote = kindOfHost(bindHost) !== 'loopback';
  const names = new Set(LOOPBACK_NAMES);
  names.add(bindHost.includes(':') ? `[${bindHost}]` : bindHost.toLowerCase());
  if (isRemote) names.add(machineName().toLowerCase());
  return {
    isAllowedHost(host) {
      const parsed = host === undefined ? undefined : parseHost(host);
      if (parsed === undefined) return false;
      return names.has(parsed.name) || (isRemote && isIP(parsed.name.replace(/^\[|\]$/gu, '')) !== 0);
    },
    isOwnOrigin(origin, host) {
      const parsed = parseHost(host);
      if (parsed === undefined || !URL.canParse(origin)) return false;
      const url = new URL(origin);
      // `url.origin` drops paths and user info: what is not equal to it is not an origin.
      if (url.origin !== origin.toLowerCase() || url.protocol !== 'http:') return false;
      return url.hostname === parsed.name && (url.port === '' ? 80 : Number(url.port)) === parsed.port;
    },
  };
}
