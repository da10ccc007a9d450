/** A msgpack encoder that may choose a wider form than needed for every value, as encoders of other languages do. */

/** Says, value by value, how many sizes wider than needed to write it: 0 most of the time. */
export type Widths = () => number;

export function encodeWidely(value: unknown, widths: Widths): Uint8Array {
  return Buffer.concat(parts(value, widths));
}

function parts(value: unknown, widths: Widths): Uint8Array[] {
  if (value === null || value === undefined) return [Buffer.of(0xc0)];
  if (typeof value === 'boolean') return [Buffer.of(value ? 0xc3 : 0xc2)];
  if (typeof value === 'bigint') return [long(value)];
  if (typeof value === 'number') return [Number.isInteger(value) ? integer(value, widths()) : float(value)];
  if (typeof value === 'string') {
    const bytes = Buffer.from(value);
    return [header(bytes.length, widths(), { fix: 0xa0, fixMax: 31, heads: [0xd9, 0xda, 0xdb], sizes: [1, 2, 4] }), bytes];
  }
  if (value instanceof Uint8Array) return [header(value.length, widths(), { heads: [0xc4, 0xc5, 0xc6], sizes: [1, 2, 4] }), value];
  if (Array.isArray(value)) {
    const items = value as readonly unknown[];
    return [header(items.length, widths(), { fix: 0x90, fixMax: 15, heads: [0xdc, 0xdd], sizes: [2, 4] }), ...items.flatMap((item) => parts(item, widths))];
  }
  const entries = Object.entries(value);
  return [header(entries.length, widths(), { fix: 0x80, fixMax: 15, heads: [0xde, 0xdf], sizes: [2, 4] }), ...entries.flatMap(([key, item]) => [...parts(key, widths), ...parts(item, widths)])];
}

function header(length: number, wider: number, form: { readonly fix?: number; readonly fixMax?: number; readonly heads: readonly number[]; readonly sizes: readonly number[] }): Buffer {
  const { fix, fixMax = -1, heads, sizes } = form;
  if (fix !== undefined && length <= fixMax && wider === 0) return Buffer.of(fix + length);
  const least = sizes.findIndex((size) => length < 2 ** (8 * size));
  const at = Math.min(sizes.length - 1, Math.max(0, least + Math.max(0, wider - (fix === undefined ? 0 : 1))));
  const size = sizes[at] ?? 4;
  const bytes = Buffer.alloc(1 + size);
  bytes[0] = heads[at] ?? 0xc1;
  bytes.writeUIntBE(length, 1, size);
  return bytes;
}

function integer(value: number, wider: number): Buffer {
  if (value > 0xffff_ffff || value < -0x8000_0000) return Number.isSafeInteger(value) ? long(BigInt(value)) : float(value);
  if (wider === 0 && value >= -32 && value <= 127) return Buffer.of(value & 0xff);
  const isNegative = value < 0;
  const least = [1, 2, 4].findIndex((size) => (isNegative ? value >= -(2 ** (8 * size - 1)) : value < 2 ** (8 * size)));
  const at = Math.min(2, least + Math.max(0, wider - 1));
  if (wider > 3) return long(BigInt(value));
  const size = 2 ** at;
  const bytes = Buffer.alloc(1 + size);
  // A positive number may come in a signed form, too, where it fits.
  const isSigned = isNegative || (wider === 3 && value < 2 ** (8 * size - 1));
  bytes[0] = (isSigned ? 0xd0 : 0xcc) + at;
  if (isSigned) bytes.writeIntBE(value, 1, size);
  else bytes.writeUIntBE(value, 1, size);
  return bytes;
}

function long(value: bigint): Buffer {
  const bytes = Buffer.alloc(9);
  bytes[0] = value < 0n ? 0xd3 : 0xcf;
  bytes.writeBigUInt64BE(BigInt.asUintN(64, value), 1);
  return bytes;
}

function float(value: number): Buffer {
  const bytes = Buffer.alloc(9);
  bytes[0] = 0xcb;
  bytes.writeDoubleBE(value, 1);
  return bytes;
}
