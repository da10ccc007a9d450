/**
 * Endpoints of the data-parallel ranks (vllm/distributed/kv_events.py, offset_endpoint_port): tcp uses the base port
 * plus the rank, inproc gets a suffix, ipc has one rank only.
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
  if (/^inproc:\/\/.+/.test(endpoint)) return rank === 0 ? endpoint : `${endpoint}_dp${rank}`;
  if (/^ipc:\/\/.+/.test(endpoint)) {
    if (rank > 0) throw invalid(endpoint, 'ipc endpoints have one rank only; use tcp for data parallelism');
    return endpoint;
  }
  throw invalid(endpoint, 'it must start with tcp://, ipc:// or inproc://');
}

/** libzmq looks for IPv6 only when told to, and then no longer finds IPv4-only names: so only for literal addresses. */
export function isIpv6Endpoint(endpoint: string): boolean {
  return endpoint.startsWith('tcp://[');
}

function invalid(endpoint: string, why: string): PdscopeError {
  return new PdscopeError('kv_endpoint_invalid', `KV event endpoint ${endpoint}: ${why}.`);
}
