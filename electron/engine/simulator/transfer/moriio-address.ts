/**
 * Where a MoRIIO peer is (protocol facts: moriio/moriio_common.py). Since 2026-04-23 both addresses travel in the request
 * id, `___prefill_addr_<zmq>___decode_addr_<zmq>_<32 hex>`, with whatever suffixes vLLM adds behind.
 */
import { readNumber, readText } from './params.ts';
import type { TransferParams } from './transfer.ts';

export interface MoriioAddress {
  readonly host: string;
  /** Of rank 0; rank r listens at port + r. */
  readonly handshakePort: number;
  readonly notifyPort: number;
}

const REQUEST_ID = /___prefill_addr_(.+?)___decode_addr_(.+?)_[0-9a-f]{32}(?![0-9a-f])/u;

/** `host:IP,handshake:PORT,notify:PORT`, each part split at its first colon, so that IPv6 survives. */
export function parseZmqAddress(text: string): MoriioAddress | undefined {
  const parts = new Map(
    text.split(',').map((part): readonly [string, string] => {
      const colon = part.indexOf(':');
      return [part.slice(0, colon), part.slice(colon + 1)];
    }),
  );
  const host = readText(parts.get('host'));
  const handshakePort = readNumber(parts.get('handshake'));
  const notifyPort = readNumber(parts.get('notify'));
  return host === undefined || handshakePort === undefined || notifyPort === undefined ? undefined : { host, handshakePort, notifyPort };
}

export function formatZmqAddress({ host, handshakePort, notifyPort }: MoriioAddress): string {
  return `host:${host},handshake:${handshakePort},notify:${notifyPort}`;
}

/** The peer of a request, as its prefill or its decode side sees it. The request id wins (since 2026-08-04). */
export function peerInRequestId(requestId: string, peer: 'prefill' | 'decode'): MoriioAddress | undefined {
  const [, prefill, decode] = REQUEST_ID.exec(requestId) ?? [];
  const text = peer === 'prefill' ? prefill : decode;
  return text === undefined ? undefined : parseZmqAddress(text);
}

/** The same from kv_transfer_params: the older engines' only way, the newer ones' fallback. */
export function peerInParams(params: TransferParams): MoriioAddress | undefined {
  const host = readText(params['remote_host']);
  const handshakePort = readNumber(params['remote_handshake_port']);
  const notifyPort = readNumber(params['remote_notify_port']);
  return host === undefined || handshakePort === undefined || notifyPort === undefined ? undefined : { host, handshakePort, notifyPort };
}
