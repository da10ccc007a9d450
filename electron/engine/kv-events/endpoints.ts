/**
 * Endpoints of the data-parallel ranks (vllm/distributed/kv_events.py, offset_endpoint_port): tcp uses the base port
 * plus the rank, ipc has one rank only. Engines are other processes, which inproc does not reach.
 */
import { PdscopeError } from '#shared/errors.ts';

export type SocketMode = 'connect' | 'bind';

/**
 * The endpoint of one rank.
 * @throws PdscopeError `kv_endpoint_invalid` when it has no port, leaves the port range, or cannot have that rank.
 */
export function rankEndpoint(endpoint: string, rank: number, mode: SocketMode): string {
  const tcp = /^tcp:\/\/(.+):(\d{1,6})$/.exec(endpoint);
  if (tcp !== null) {
    const host = tcp[1] ?? '';
    const port = Number(tcp[2]) + rank;
    if (port < 1 || port > 65_535) throw invalid(endpoint, `rank ${rank} would need port ${port}; ports go from 1 to 65535`);
    if (mode === 'connect' && host === '*') throw invalid(endpoint, '"*" is where the engine binds; connect to its host name or address');
    if (host.includes(':') && !host.startsWith('[')) throw invalid(endpoint, 'write an IPv6 address in brackets, e.g. tcp://[::1]:5557');
    return `tcp://${host}:${port}`;
  }
  if (endpoint.startsWith('tcp://')) throw invalid(endpoint, 'a port is missing, e.g. tcp://10.0.0.1:5557');
  if (/^ipc:\/\/.+/.test(endpoint)) {
    if (rank > 0) throw invalid(endpoint, 'ipc endpoints have one rank only; use tcp for data parallelism');
    return endpoint;
  }
  throw invalid(endpoint, 'it must start with tcp:// or ipc://');
}

export interface RankEndpoints {
  readonly endpoint: string;
  readonly mode: SocketMode;
  readonly replayEndpoint?: string | undefined;
  readonly ranks: number;
}

/**
 * Whether every rank can have its endpoints, and the replay sockets ones of their own.
 * @throws PdscopeError `kv_endpoint_invalid`.
 */
export function checkRankEndpoints({ endpoint, mode, replayEndpoint, ranks }: RankEndpoints): void {
  const all = (base: string, how: SocketMode): string[] => Array.from({ length: ranks }, (_, rank) => rankEndpoint(base, rank, how));
  const events = all(endpoint, mode);
  const shared = replayEndpoint === undefined ? undefined : all(replayEndpoint, 'connect').find((one) => events.includes(one));
  if (shared === undefined) return;
  throw invalid(endpoint, `with ${ranks === 1 ? 'its' : `the ${ranks} ranks'`} replay sockets at ${replayEndpoint ?? ''}, ${shared} would be both; engines have them apart, by at least as many ports as ranks`);
}

/** libzmq looks for IPv6 only when told to, and then no longer finds IPv4-only names: so only for literal addresses. */
export function isIpv6Endpoint(endpoint: string): boolean {
  return endpoint.startsWith('tcp://[');
}

function invalid(endpoint: string, why: string): PdscopeError {
  return new PdscopeError('kv_endpoint_invalid', `KV event endpoint ${endpoint}: ${why}.`);
}
