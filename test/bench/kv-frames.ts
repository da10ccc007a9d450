/**
 * Payloads of KV-event batches as vLLM encodes them (map layout), made fast: the bytes are built once per shape, and for
 * every batch only clock, hashes, parents and the tokens that tell blocks apart are written into a copy. So a publisher
 * is cheap enough to share a small machine with what it measures.
 *
 * Blocks are distinct in content. An event continues the chain of the one before it in the batch, or, with one block to
 * an event, the chain of the same event of the batch before, as decoding sequences do; chains begin anew after a while.
 */
import { encode } from '@msgpack/msgpack';

export interface BatchShape {
  readonly blocksPerEvent: number;
  readonly eventsPerBatch: number;
}

export const BLOCK_SIZE = 16;
/** Batches after which sequences of one block an event begin anew: 1,024 tokens. */
const CHAIN_BATCHES = 64;
const HASH_STEP = 0x9e37_79b9_7f4a_7c15n;
const FIRST_TOKEN = 256;

interface EventPlaces {
  /** Where 8 bytes of each hash go. */
  readonly hashes: number[];
  /** Absent in a root event. */
  readonly parent: number | undefined;
  /** Where 2 bytes of each token go. */
  readonly tokens: number[];
}

interface Template {
  readonly bytes: Uint8Array;
  /** Where the 8 bytes of the clock go. */
  readonly clock: number;
  readonly events: readonly EventPlaces[];
}

/** Collects bytes, and says where the next one goes. */
class Bytes {
  readonly #parts: Uint8Array[] = [];
  at = 0;

  add(part: Uint8Array): void {
    this.#parts.push(part);
    this.at += part.length;
  }

  value(value: unknown): void {
    this.add(encode(value));
  }

  array(length: number): void {
    this.add(length < 16 ? Uint8Array.of(0x90 | length) : Uint8Array.of(0xdc, length >> 8, length & 0xff));
  }

  /** A header and room after it, to be written later. Answers where. */
  room(header: number, size: number): number {
    this.add(Uint8Array.of(header));
    this.add(new Uint8Array(size));
    return this.at - size;
  }

  joined(): Uint8Array {
    return Uint8Array.from(Buffer.concat(this.#parts));
  }
}

const FLOAT_64 = 0xcb;
const UINT_64 = 0xcf;
const UINT_16 = 0xcd;
const MAP_OF_10 = 0x8a;

function template({ blocksPerEvent, eventsPerBatch }: BatchShape, isRoot: (event: number) => boolean): Template {
  const bytes = new Bytes();
  bytes.array(3);
  const clock = bytes.room(FLOAT_64, 8);
  bytes.array(eventsPerBatch);
  const events = Array.from({ length: eventsPerBatch }, (_, event) => {
    bytes.add(Uint8Array.of(MAP_OF_10));
    bytes.value('type');
    bytes.value('BlockStored');
    bytes.value('block_hashes');
    bytes.array(blocksPerEvent);
    const hashes = Array.from({ length: blocksPerEvent }, () => bytes.room(UINT_64, 8));
    bytes.value('parent_block_hash');
    let parent: number | undefined;
    if (isRoot(event)) bytes.value(null);
    else parent = bytes.room(UINT_64, 8);
    bytes.value('token_ids');
    bytes.array(blocksPerEvent * BLOCK_SIZE);
    const tokens = Array.from({ length: blocksPerEvent * BLOCK_SIZE }, () => bytes.room(UINT_16, 2));
    for (const [name, value] of [['block_size', BLOCK_SIZE], ['lora_id', null], ['medium', 'GPU'], ['lora_name', null], ['group_idx', 0], ['kv_cache_spec_kind', 'full_attention']]) {
      bytes.value(name);
      bytes.value(value);
    }
    return { hashes, parent, tokens };
  });
  bytes.value(0);
  return { bytes: bytes.joined(), clock, events };
}

/** The batches of one publisher, one after the other. */
export class BatchMaker {
  readonly blocksPerBatch: number;
  readonly #shape: BatchShape;
  readonly #root: Template;
  readonly #child: Template;
  /** Hash of the last block of each chain. */
  readonly #ends: bigint[];
  #batches = 0;
  #blocks: number;

  /** `first`: number of the first block, so that several publishers of one run store different blocks. */
  constructor(shape: BatchShape, first: number) {
    this.#shape = shape;
    this.blocksPerBatch = shape.blocksPerEvent * shape.eventsPerBatch;
    const isDecoding = shape.blocksPerEvent === 1;
    this.#root = template(shape, (event) => isDecoding || event === 0);
    this.#child = isDecoding ? template(shape, () => false) : this.#root;
    this.#ends = Array.from({ length: shape.eventsPerBatch }, () => 0n);
    this.#blocks = first;
  }

  next(): Uint8Array {
    const isDecoding = this.#shape.blocksPerEvent === 1;
    const { bytes, clock, events } = this.#batches % CHAIN_BATCHES === 0 ? this.#root : this.#child;
    this.#batches += 1;
    const payload = bytes.slice();
    const view = new DataView(payload.buffer);
    view.setFloat64(clock, Date.now() / 1000);
    for (const [at, { hashes, parent, tokens }] of events.entries()) {
      if (parent !== undefined) view.setBigUint64(parent, this.#ends[isDecoding ? at : at - 1] ?? 0n);
      for (const [index, place] of hashes.entries()) {
        this.#blocks += 1;
        const hash = BigInt.asUintN(64, BigInt(this.#blocks) * HASH_STEP);
        view.setBigUint64(place, hash);
        if (index === hashes.length - 1) this.#ends[at] = hash;
        // Two tokens number the block; the rest are any.
        for (let token = 0; token < BLOCK_SIZE; token += 1) {
          const value = token === 0 ? this.#blocks & 0x7fff : token === 1 ? (this.#blocks >>> 15) & 0x7fff : token * 1009;
          view.setUint16(tokens[index * BLOCK_SIZE + token] ?? 0, FIRST_TOKEN + value);
        }
      }
    }
    return payload;
  }
}

/** The frame before the payload: 8 bytes, big-endian. */
export function sequenceFrame(seq: number): Buffer {
  const frame = Buffer.allocUnsafe(8);
  frame.writeBigUInt64BE(BigInt(seq));
  return frame;
}
