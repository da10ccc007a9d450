/** kv_transfer_params as shown to people. What goes over the wire is always the raw bytes, never this. */

export const KV_TRANSFER_PARAMS = 'kv_transfer_params';

/** Beyond this the record keeps the JSON text, cut, instead of an object. */
const MAX_PARSED_BYTES = 64 * 1024;
/** Integers of this many digits may not survive as a JS number. */
const LONG_NUMBER = /[0-9]{16}/;

/** The parsed object, or its JSON text where parsing would cost too much or change a number. */
export function transferParamsForRecord(raw: Buffer): unknown {
  if (raw.length > MAX_PARSED_BYTES) return raw.toString('utf8', 0, MAX_PARSED_BYTES);
  const text = raw.toString('utf8');
  if (LONG_NUMBER.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
