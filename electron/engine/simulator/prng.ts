/** Seeded randomness: the same seed gives the same run, whatever the machine. Not for secrets. */

export interface Prng {
  /** Uniform in [0, 1). */
  next(): number;
  /** Uniform integer in [0, limit). */
  int(limit: number): number;
  /** Lower-case hexadecimal digits. */
  hex(digits: number): string;
}

/** 32-bit FNV-1a over numbers, for deriving seeds from token ids. Start value by default is the FNV offset basis. */
export function mixSeed(values: Iterable<number>, start = 0x811c9dc5): number {
  let hash = start >>> 0;
  for (const value of values) {
    hash = Math.imul(hash ^ (value & 0xffff), 0x01000193);
    hash = Math.imul(hash ^ (value >>> 16), 0x01000193);
  }
  return hash >>> 0;
}

/** A seed out of any text. */
export function seedOf(text: string): number {
  const codes: number[] = [];
  for (let index = 0; index < text.length; index += 1) codes.push(text.charCodeAt(index));
  return mixSeed(codes);
}

/** Mulberry32: 32 bits of state, passes gjrand; ample for arrival times and word choice. */
export function createPrng(seed: number): Prng {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  return {
    next,
    int: (limit) => Math.floor(next() * limit),
    hex(digits) {
      let text = '';
      while (text.length < digits) text += Math.floor(next() * 4294967296).toString(16).padStart(8, '0');
      return text.slice(0, digits);
    },
  };
}

/** A random UUID (version 4 form) from a seeded source. */
export function uuidFrom(prng: Prng): string {
  const hex = prng.hex(32);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
