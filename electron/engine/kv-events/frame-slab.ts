/**
 * Frames of messages that wait, copied into blocks of bytes that many messages share. A received message is half a dozen
 * objects, each frame with memory of its own; while thousands of them wait in a flood, the garbage collector moves them
 * all, which stops tokens for longer than copying their bytes ever takes.
 *
 * A block is written anew once all messages in it are let go, and not before: whoever keeps frames for longer copies them. So
 * a queue that is emptied leaves no garbage; blocks go round among the slabs that share a pool.
 */
const BLOCK_BYTES = 64 * 1024;
/** Larger messages are kept as they are, so that little of a block is wasted. */
const MAX_COPIED_BYTES = BLOCK_BYTES / 4;
/** Real messages have three frames, replayed ones up to five. */
const MAX_FRAMES = 8;
/** Blocks that are kept for later, 4 MiB; those of a long queue go back to the system. */
const MAX_FREE_BLOCKS = 64;

export interface Block {
  readonly bytes: Buffer;
  /** Messages in it that were not let go. */
  messages: number;
}

/** Blocks that no slab uses. */
export class BlockPool {
  readonly #free: Block[] = [];

  take(): Block {
    return this.#free.pop() ?? { bytes: Buffer.allocUnsafeSlow(BLOCK_BYTES), messages: 0 };
  }

  give(block: Block): void {
    if (this.#free.length < MAX_FREE_BLOCKS) this.#free.push(block);
  }
}

/** One for each queue that is emptied in order: then at most two of its blocks are partly dead. */
export class FrameSlab {
  readonly #pool: BlockPool;
  #block: Block | undefined;
  #used = 0;

  constructor(pool: BlockPool) {
    this.#pool = pool;
  }

  /**
   * Copies the frames of a message of so many bytes to a block: their number in one byte, the length of each in four, then
   * themselves. Answers the block and where they begin; undefined when they had better be kept as they are.
   */
  add(frames: readonly Uint8Array[], bytes: number): { readonly block: Block; readonly start: number } | undefined {
    const size = 1 + 4 * frames.length + bytes;
    if (size > MAX_COPIED_BYTES || frames.length > MAX_FRAMES) return undefined;
    if (this.#block === undefined || this.#used + size > BLOCK_BYTES) {
      this.#block = this.#pool.take();
      this.#used = 0;
    }
    const block = this.#block;
    const start = this.#used;
    let at = block.bytes.writeUInt8(frames.length, start);
    for (const frame of frames) at = block.bytes.writeUInt32LE(frame.length, at);
    for (const frame of frames) {
      block.bytes.set(frame, at);
      at += frame.length;
    }
    this.#used = at;
    block.messages += 1;
    return { block, start };
  }

  /** Lets go of one message of a block of this slab. */
  release(block: Block): void {
    block.messages -= 1;
    if (block.messages > 0) return;
    if (block === this.#block) this.#used = 0;
    else this.#pool.give(block);
  }
}

/** The frames of a message that was copied, as views of its block. */
export function framesAt({ bytes }: Block, start: number): readonly Uint8Array[] {
  const count = bytes.readUInt8(start);
  const frames: Uint8Array[] = [];
  let at = start + 1 + 4 * count;
  for (let index = 0; index < count; index += 1) {
    const end = at + bytes.readUInt32LE(start + 1 + 4 * index);
    frames.push(bytes.subarray(at, end));
    at = end;
  }
  return frames;
}
