/** kv_transfer_params as kept for people. What goes over the wire is always the raw bytes, never this. */

export const KV_TRANSFER_PARAMS = 'kv_transfer_params';

/** Beyond this the record keeps the JSON text cut off. */
const MAX_TEXT_BYTES = 64 * 1024;

/** Their JSON text: parsed only when somebody looks at the request, which is seldom. */
export function transferParamsForRecord(raw: Buffer): string {
  return raw.toString('utf8', 0, MAX_TEXT_BYTES);
}
