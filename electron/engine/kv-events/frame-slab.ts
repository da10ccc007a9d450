/**
 * Frames of messages that wait, copied into blocks of bytes that many messages share. A received message is half a dozen
 * objects, each frame with memory of its own; while thousands of them wait in a flood, the garbage collector moves them
 * all, which stops tokens for longer than copying their bytes ever takes.
 *
 * A block is never written twice, so frames stay what they were for whoever holds them; it lives as long as a message in
 * it. One slab for each queue that is emptied in order: then at most two of its blocks are partly dead.
 */
const BLOCK_BYTES = 64 * 1024;
/** Larger messages are kept as they are, so that little of a block is wasted. */
const MAX_COPIED_BYTES = BLOCK_BYTES / 4;
/** Real messages have three frames, replayed ones up to five. */
const MAX_FRAMES = 8;
const NOTHING = Buffer.alloc(0);

export class FrameSlab {
  /** The block that the last message was copied to. */
  block: Buffer = NOTHING;
  #used = 0;

  /**
   * Copies the frames of a message of so many bytes to `block`: their number in one byte, the length of each in four, then
   * themselves. Answers where they begin; undefined when they had better be kept as they are.
   */
  add(frames: readonly Uint8Array[], bytes: number): number | undefined {
    const size = 1 + 4 * frames.length + bytes;
    if (size > MAX_COPIED_BYTES || frames.length > MAX_FRAMES) return undefined;
    if (this.#used + size > this.block.length) {
      this.block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
      this.#used = 0;
    }
    const { block } = this;
    const start = this.#used;
    let at = block.writeUInt8(frames.length, start);
    for (const frame of frames) at = block.writeUInt32LE(frame.length, at);
    for (const frame of frames) {
      block.set(frame, at);
      at += frame.length;
    }
    this.#used = at;
    return start;
  }
}

/** The frames of a message that was copied, as views of its block. */
export function framesAt(block: Buffer, start: number): readonly Uint8Array[] {
  const count = block.readUInt8(start);
  const frames: Uint8Array[] = [];
  let at = start + 1 + 4 * count;
  for (let index = 0; index < count; index += 1) {
    const end = at + block.readUInt32LE(start + 1 + 4 * index);
    frames.push(block.subarray(at, end));
    at = end;
  }
  return frames;
}
