/** A frame's bytes as people read them: offset, sixteen bytes, their ASCII. */

const BYTES_PER_LINE = 16;

export interface HexLine {
  /** `000001a0`. */
  readonly offset: string;
  /** `93 cb 41 d9 …`, a wider gap after eight bytes, padded to full width. */
  readonly hex: string;
  /** A dot for what cannot be printed. */
  readonly ascii: string;
}

/** Lines of a hex string; an odd digit at its end is left out. */
export function hexLines(hex: string): readonly HexLine[] {
  const bytes: number[] = [];
  for (let at = 0; at + 1 < hex.length; at += 2) bytes.push(Number.parseInt(hex.slice(at, at + 2), 16));
  const lines: HexLine[] = [];
  for (let at = 0; at < bytes.length; at += BYTES_PER_LINE) {
    const part = bytes.slice(at, at + BYTES_PER_LINE);
    const digits = Array.from({ length: BYTES_PER_LINE }, (_, index) => part[index]?.toString(16).padStart(2, '0') ?? '  ');
    lines.push({
      offset: at.toString(16).padStart(8, '0'),
      hex: `${digits.slice(0, 8).join(' ')}  ${digits.slice(8).join(' ')}`,
      ascii: part.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join(''),
    });
  }
  return lines;
}

/** The whole frame as one text, for a `pre`. */
export function hexDump(hex: string): string {
  return hexLines(hex).map(({ offset, hex: bytes, ascii }) => `${offset}  ${bytes}  ${ascii}`).join('\n');
}

/** A sequence frame's value: eight bytes, big-endian (vLLM's ZmqEventPublisher). Undefined for another length. */
export function sequenceOf(hex: string): string | undefined {
  return /^[0-9a-f]{16}$/iu.test(hex) ? BigInt.asIntN(64, BigInt(`0x${hex}`)).toString() : undefined;
}
