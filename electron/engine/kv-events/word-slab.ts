/**
 * Arrays of words for events: small ones are objects of the heap, larger ones are cut from slabs, as a buffer of its own
 * costs an allocation outside the heap. A slab lives as long as an array that was cut from it; events do not live long.
 */
const SLAB_WORDS = 16_384;
/** What V8 keeps on its heap: 64 bytes (its typed_array_max_size_in_heap). */
const HEAP_WORDS = 16;
/** Longer ones get a buffer of their own, so that little of a slab is wasted. */
const MAX_CUT_WORDS = SLAB_WORDS / 4;

let slab = new Uint32Array(SLAB_WORDS);
let used = 0;

/** An array of zeros. */
export function takeWords(count: number): Uint32Array {
  if (count <= HEAP_WORDS || count > MAX_CUT_WORDS) return new Uint32Array(count);
  if (used + count > SLAB_WORDS) {
    slab = new Uint32Array(SLAB_WORDS);
    used = 0;
  }
  const start = used;
  used += count;
  return new Uint32Array(slab.buffer, start * 4, count);
}
