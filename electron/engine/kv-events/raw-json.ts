/** Longest JSON text kept of a raw value, characters. */
export const RAW_JSON_CHARS = 400;

/** JSON text of a decoded msgpack value: bytes as hex, big integers as exact digits in quotes. Cut to 400 characters. */
export function rawJson(value: unknown): string {
  const text = JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part === 'bigint') return part.toString();
    // Nothing past this fits into the text anyway.
    if (Array.isArray(part) && part.length > RAW_JSON_CHARS) return part.slice(0, RAW_JSON_CHARS);
    // Buffers arrive here already turned into {type, data} by their toJSON; decoded values never are Buffers.
    return part instanceof Uint8Array ? Buffer.from(part.buffer, part.byteOffset, Math.min(part.length, RAW_JSON_CHARS)).toString('hex') : part;
  }) ?? 'null';
  return text.length > RAW_JSON_CHARS ? `${text.slice(0, RAW_JSON_CHARS - 1)}…` : text;
}
