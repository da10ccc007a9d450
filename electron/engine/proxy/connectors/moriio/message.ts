/**
 * One message of an engine at the registration socket, read from its msgpack map. Three generations of registrations,
 * the toy proxies' HELLO, and heartbeats of P2P-NCCL engines, which look nearly the same, are told apart; whatever else
 * arrives is malformed, with the reason in words.
 *
 * Sources: vllm/distributed/kv_transfer/kv_connector/v1/moriio/moriio_connector.py and moriio_common.py;
 * vllm/distributed/kv_transfer/kv_connector/v1/p2p/p2p_nccl_engine.py (removed 2026-06-08). Anybody who reaches the
 * port can send here: nothing in a message is trusted, and texts of it are cut before they are shown.
 */
import { isIPv6 } from 'node:net';
import { Decoder } from '@msgpack/msgpack';
import { errorMessage } from '#shared/errors.ts';
import { MAX_RANKS } from '#shared/instance.ts';
import { cut } from '../../../cut-text.ts';
import { parseAddress } from '../../../fleet/parse-address.ts';
import { checkMsgpack, type GuardLimits } from '../../../kv-events/msgpack-guard.ts';

export type TransferMode = 'READ' | 'WRITE';
/** v1: 2026-01-09 to 2026-04-22. v1b: 2026-04-22, one day. v2: since 2026-04-23. */
export type MoriioSchema = 'v1' | 'v1b' | 'v2';

/** What an engine says about itself every three seconds; the same for all generations. */
export interface MoriioRegistration {
  readonly schema: MoriioSchema;
  readonly role: 'prefill' | 'decode';
  /** Of its OpenAI server: scheme, host and port. */
  readonly origin: string;
  readonly httpPort: number;
  /** `host:IP,handshake:PORT,notify:PORT`, as it was said (v2) or put together (v1). Safe to send in a header. */
  readonly zmqAddress: string;
  /** Where its workers are reached for transfers. IPv6 without brackets. */
  readonly host: string;
  readonly handshakePort: number;
  readonly notifyPort: number;
  /** Data-parallel ranks, over all nodes. */
  readonly dpSize: number;
  readonly tpSize: number;
  readonly mode: TransferMode;
}

export type MoriioMessage =
  | { readonly kind: 'registration'; readonly registration: MoriioRegistration }
  | { readonly kind: 'hello' }
  /** A heartbeat of vLLM's P2pNcclConnector: another protocol on the same kind of socket. */
  | { readonly kind: 'p2p-nccl'; readonly httpAddress: string }
  | { readonly kind: 'malformed'; readonly problem: string };

/** Real ones have 60 to 200 bytes. */
export const MAX_PAYLOAD_BYTES = 4096;
const MAX_TP_SIZE = 1024;
const GUARD: GuardLimits = { maxDepth: 4, maxNodes: 256 };
const MAX_PROBLEM_LENGTH = 240;
const CONTROL_CHARACTERS = /\p{Cc}/gu;
const decoder = new Decoder({ useBigInt64: true });

type Fields = Readonly<Record<string, unknown>>;

/** Thrown inside this module only. */
class Malformed extends Error {}

/** Reads the last frame of a message. Never throws. */
export function readMessage(payload: Uint8Array): MoriioMessage {
  try {
    return interpret(decodeMap(payload));
  } catch (error) {
    return { kind: 'malformed', problem: cut(errorMessage(error).replace(CONTROL_CHARACTERS, '?'), MAX_PROBLEM_LENGTH) };
  }
}

function decodeMap(payload: Uint8Array): Fields {
  if (payload.length > MAX_PAYLOAD_BYTES) throw new Malformed(`${payload.length} bytes, more than any registration has`);
  const problem = checkMsgpack(payload, GUARD);
  if (problem !== undefined) throw new Malformed(`not msgpack: ${problem}`);
  // A Buffer's views would be Buffers; a plain one is what the decoder expects.
  const value = decoder.decode(new Uint8Array(payload.buffer, payload.byteOffset, payload.byteLength));
  if (typeof value !== 'object' || value === null || Array.isArray(value) || ArrayBuffer.isView(value)) throw new Malformed('not a msgpack map');
  return value as Fields;
}

function interpret(fields: Fields): MoriioMessage {
  const { type } = fields;
  if (type === 'HELLO') return { kind: 'hello' };
  if (type === 'register') return { kind: 'registration', registration: readV1(fields) };
  if (type !== 'P' && type !== 'D') throw new Malformed(`type is ${show(type)}, neither "register" nor "P" nor "D"`);
  const zmqAddress = readText(fields, 'zmq_address');
  if (!zmqAddress.startsWith('host:')) return { kind: 'p2p-nccl', httpAddress: readText(fields, 'http_address') };
  return { kind: 'registration', registration: readV2(fields, zmqAddress) };
}

function readV1(fields: Fields): MoriioRegistration {
  const address = readText(fields, 'request_address');
  const { origin, hostname, port } = parseUrl(address);
  const handshakePort = readCount(fields, 'handshake_port', 65_535);
  const notifyPort = readCount(fields, 'notify_port', 65_535);
  const host = hostname.replace(/^\[|\]$/g, '');
  return {
    schema: address.endsWith('/v1') ? 'v1b' : 'v1',
    role: readRole(fields['role'], 'role'),
    origin,
    httpPort: port,
    zmqAddress: `host:${host},handshake:${handshakePort},notify:${notifyPort}`,
    host,
    handshakePort,
    notifyPort,
    ...readSizes(fields),
  };
}

function readV2(fields: Fields, zmqAddress: string): MoriioRegistration {
  const { origin, port } = parseAddress(withBrackets(readText(fields, 'http_address')));
  return {
    schema: 'v2',
    role: readRole(fields['type'], 'type'),
    origin,
    httpPort: port,
    zmqAddress,
    ...readZmqAddress(zmqAddress),
    ...readSizes(fields),
  };
}

/** `host:IP,handshake:PORT,notify:PORT`: parts in any order, each split on its first colon, because of IPv6. */
function readZmqAddress(text: string): Pick<MoriioRegistration, 'host' | 'handshakePort' | 'notifyPort'> {
  // It becomes a part of X-Request-Id, between marks of three underscores.
  if (!/^[\x21-\x7e]{1,256}$/.test(text) || text.includes('___')) throw new Malformed(`zmq_address ${show(text)} cannot travel in a request id`);
  const parts: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const part of text.split(',')) {
    const colon = part.indexOf(':');
    if (colon > 0) parts[part.slice(0, colon)] = part.slice(colon + 1);
  }
  const { host } = parts;
  if (typeof host !== 'string' || host === '') throw new Malformed(`zmq_address ${show(text)} names no host`);
  return { host, handshakePort: readCount(parts, 'handshake', 65_535), notifyPort: readCount(parts, 'notify', 65_535) };
}

function readSizes(fields: Fields): Pick<MoriioRegistration, 'dpSize' | 'tpSize' | 'mode'> {
  const mode = readText(fields, 'transfer_mode').toUpperCase();
  if (mode !== 'READ' && mode !== 'WRITE') throw new Malformed(`transfer_mode is ${show(fields['transfer_mode'])}, neither READ nor WRITE`);
  return { dpSize: readCount(fields, 'dp_size', MAX_RANKS), tpSize: readCount(fields, 'tp_size', MAX_TP_SIZE), mode };
}

function readRole(value: unknown, field: string): 'prefill' | 'decode' {
  if (value === 'P') return 'prefill';
  if (value === 'D') return 'decode';
  throw new Malformed(`${field} is ${show(value)}, neither "P" nor "D"`);
}

function readText(fields: Fields, field: string): string {
  const value = fields[field];
  if (typeof value !== 'string' || value === '') throw new Malformed(`${field} is ${show(value)}, not a text`);
  return value;
}

/** A whole number from 1 to `max`; engines may send it as a text. */
function readCount(fields: Fields, field: string, max: number): number {
  const value = fields[field];
  const number = typeof value === 'bigint' || (typeof value === 'string' && /^\d{1,9}$/.test(value)) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < 1 || number > max) {
    throw new Malformed(`${field} is ${show(value)}, not a whole number from 1 to ${max}`);
  }
  return number;
}

function parseUrl(text: string): { readonly origin: string; readonly hostname: string; readonly port: number } {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') throw new Malformed(`request_address ${show(text)} is no http URL`);
  const { origin, host, port } = parseAddress(url.port === '' ? `${url.protocol}//${url.hostname}:${url.protocol === 'https:' ? 443 : 80}` : url.origin);
  return { origin, hostname: host, port };
}

/** `ip:port` as engines write it: IPv6 without brackets. */
function withBrackets(address: string): string {
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, Math.max(0, colon));
  return isIPv6(host) ? `[${host}]${address.slice(colon)}` : address;
}

/** A value of a foreign message, short and without control characters. */
function show(value: unknown): string {
  if (value === undefined) return 'missing';
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'object') return value === null ? 'nil' : 'a structure';
  return JSON.stringify(typeof value === 'string' ? value.slice(0, 80) : value);
}
