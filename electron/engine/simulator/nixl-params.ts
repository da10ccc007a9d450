/** The `kv_transfer_params` member of a body, as it is; what it asks for is the transfer protocol's to say. */
import type { TransferParams } from './transfer/transfer.ts';

export type KvTransferRequest = TransferParams;

/** undefined: nothing asked of the connector. */
export function readKvTransferParams(value: unknown): KvTransferRequest | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as KvTransferRequest) : undefined;
}
