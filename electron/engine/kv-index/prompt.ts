/** A prompt as it is looked up: its tokens, and the keys that tell its blocks apart. */
import type { BlockKey } from './answers.ts';
import type { ExtraKeys } from './extra-keys.ts';
import type { NodeTable } from './node-table.ts';
import { Probe } from './probe.ts';

export interface PromptKeys {
  /** Adapter of the request. */
  readonly lora?: string | undefined;
  readonly salt?: string | undefined;
  /** Media by block, where the prompt has any; identifiers as the engine makes them, offsets relative to the block. */
  readonly media?: readonly (BlockKey['media'] | undefined)[] | undefined;
}

/** A key that no block in the index has. */
const NO_SUCH_KEY = 0xffff_ffff;

export class Prompt {
  readonly tokens: Uint32Array;
  readonly blockSize: number;
  /** Whole blocks. */
  readonly blocks: number;
  readonly #keys: PromptKeys;
  readonly #extras: ExtraKeys;
  readonly #nodes: NodeTable;
  readonly #probe = new Probe();
  /** The key of blocks after the first that have no media. */
  readonly #plain: number;

  constructor(tokens: Uint32Array, blockSize: number, where: { readonly keys: PromptKeys; readonly nodes: NodeTable; readonly extras: ExtraKeys }) {
    this.tokens = tokens;
    this.blockSize = blockSize;
    this.blocks = blockSize > 0 ? Math.floor(tokens.length / blockSize) : 0;
    this.#keys = where.keys;
    this.#nodes = where.nodes;
    this.#extras = where.extras;
    this.#plain = this.#extras.find(where.keys.lora === undefined ? {} : { lora: where.keys.lora }) ?? NO_SUCH_KEY;
  }

  /** The node of block `index` under `parent`, or 0. */
  childOf(parent: number, index: number): number {
    return this.#nodes.find(parent, this.probeAt(index));
  }

  /** The probe at block `index`; valid until the next call. */
  probeAt(index: number): Probe {
    this.#probe.set(this.tokens, index * this.blockSize, this.blockSize);
    const hasOwnKey = (index === 0 && this.#keys.salt !== undefined) || this.#keys.media?.[index] !== undefined;
    this.#probe.extra = hasOwnKey ? (this.#extras.find(this.keyOf(index)) ?? NO_SUCH_KEY) : this.#plain;
    return this.#probe;
  }

  /** The key of block `index`. */
  keyOf(index: number): BlockKey {
    const { lora, salt, media } = this.#keys;
    const own = media?.[index];
    return {
      ...(lora !== undefined && { lora }),
      ...(index === 0 && salt !== undefined && { salt }),
      ...(own !== undefined && { media: own }),
    };
  }

  /** Tokens from block `index` on, at most `limit`. */
  slice(index: number, limit: number): number[] {
    const from = index * this.blockSize;
    return Array.from(this.tokens.subarray(from, from + limit));
  }
}
