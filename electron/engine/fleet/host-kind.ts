/** What a host name or address means beyond the machine that says it. */

/** `unspecified`: every address of a machine, or none at all. `loopback`: the machine itself. `real`: everything else. */
export type HostKind = 'unspecified' | 'loopback' | 'real';

/** Brackets of IPv6, case and IPv4-mapped forms do not matter. Resolves no names: `localhost` alone is known. */
export function kindOfHost(host: string): HostKind {
  const plain = host.trim().toLowerCase().replace(/^\[|\]$/g, '').replace(/^::ffff:(?=\d+\.)/, '');
  if (plain === '' || plain === '0.0.0.0' || plain === '::' || plain === '*') return 'unspecified';
  return plain === 'localhost' || plain === '::1' || /^127(?:\.\d{1,3}){3}$/.test(plain) ? 'loopback' : 'real';
}

/** Where this machine reaches what listens on `host`: everywhere means here, too. */
export function reachableHost(host: string): string {
  return kindOfHost(host) === 'unspecified' ? '127.0.0.1' : host;
}

/** The same as it stands in a URL: IPv6 in brackets. */
export function hostInUrl(host: string): string {
  const reachable = reachableHost(host);
  return reachable.includes(':') && !reachable.startsWith('[') ? `[${reachable}]` : reachable;
}
