/**
 * A block's content as it is looked for: a window on somebody's tokens, its extra key, and the mix of the tokens that
 * finds it. One object is moved along an event's or a prompt's tokens, so that a lookup makes no garbage.
 */

/** So that nobody who names tokens can aim at one bucket. */
const SEED = Math.floor(Math.random() * 0xffff_ffff);

export class Probe {
  tokens: Uint32Array = new Uint32Array(0);
  offset = 0;
  /** Tokens of the block. */
  size = 0;
  /** Number of the extra key (extra-keys.ts); 0 is none. */
  extra = 0;
  /** 32 bits of the tokens, without extra key and parent. */
  mix = 0;

  /** Looks at `size` tokens from `offset` on. */
  set(tokens: Uint32Array, offset: number, size: number): void {
    this.tokens = tokens;
    this.offset = offset;
    this.size = size;
    // MurmurHash3's body and finish, 32 bits; equal mixes are told apart by their tokens.
    let mix = SEED ^ size;
    for (let index = offset; index < offset + size; index += 1) {
      let word = Math.imul(tokens[index] ?? 0, 0xcc9e_2d51);
      word = Math.imul((word << 15) | (word >>> 17), 0x1b87_3593);
      mix ^= word;
      mix = (Math.imul((mix << 13) | (mix >>> 19), 5) + 0xe654_6b64) | 0;
    }
    mix = Math.imul(mix ^ (mix >>> 16), 0x85eb_ca6b);
    mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2_ae35);
    this.mix = (mix ^ (mix >>> 16)) >>> 0;
  }
}
