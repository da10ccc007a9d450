/**
 * Walks the headers of a msgpack value without building anything, before the decoder is let loose on it: a few bytes
 * can claim arrays of billions, or nest millions deep. What passes is complete, at most `maxDepth` deep, and holds at
 * most `maxNodes` values, so that decoding it costs memory in proportion to its bytes.
 */
export interface GuardLimits {
  readonly maxDepth: number;
  readonly maxNodes: number;
}

/** Answers why the bytes are refused, or undefined when they are one whole value within the limits. */
export function checkMsgpack(bytes: Uint8Array, limits: GuardLimits): string | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = bytes.length;
  const open: number[] = [];
  let left = 1;
  let nodes = 0;
  let at = 0;
  for (;;) {
    while (left === 0) {
      const outer = open.pop();
      if (outer === undefined) return at === end ? undefined : `${end - at} bytes follow the value`;
      left = outer;
    }
    left -= 1;
    nodes += 1;
    if (nodes > limits.maxNodes) return `more than ${limits.maxNodes} values`;
    const head = bytes[at];
    if (head === undefined) return 'truncated';
    at += 1;
    // Small integers, the bulk of token ids, have no body.
    if (head <= 0x7f || head >= 0xe0) continue;
    let children = 0;
    if (head <= 0x8f) children = (head & 0x0f) * 2;
    else if (head <= 0x9f) children = head & 0x0f;
    else if (head <= 0xbf) at += head & 0x1f;
    else {
      const header = HEADER_BYTES[head - 0xc0] ?? -1;
      if (header < 0) return `byte 0x${head.toString(16)} is not msgpack`;
      if (at + header > end) return 'truncated';
      const size = readSize(view, at, head);
      at += header;
      if (head >= 0xde) children = size * 2;
      else if (head >= 0xdc) children = size;
      else at += size;
    }
    if (at > end) return 'truncated';
    if (children > 0) {
      // Every value takes a byte at least: a larger claim is a lie, whatever follows.
      if (children > end - at) return 'truncated';
      if (open.length >= limits.maxDepth) return `nested deeper than ${limits.maxDepth}`;
      open.push(left);
      left = children;
    }
  }
}

/** Bytes after the head byte that belong to the header (sizes) or to a fixed-size body, for heads 0xc0..0xdf; -1: unused. */
const HEADER_BYTES = [
  0, -1, 0, 0, 1, 2, 4, 2, 3, 5, 4, 8, 1, 2, 4, 8,
  1, 2, 4, 8, 2, 3, 5, 9, 17, 1, 2, 4, 2, 4, 2, 4,
] as const;

/** The size in the header of str, bin, ext, array and map; 0 for values whose body HEADER_BYTES already counts. */
function readSize(view: DataView, at: number, head: number): number {
  switch (head) {
    case 0xc4: case 0xc7: case 0xd9: return view.getUint8(at);
    case 0xc5: case 0xc8: case 0xda: case 0xdc: case 0xde: return view.getUint16(at);
    case 0xc6: case 0xc9: case 0xdb: case 0xdd: case 0xdf: return view.getUint32(at);
    default: return 0;
  }
}
