/** The frames of a row's message as a page shows them: hex, and the payload as JSON text. Made when somebody asks. */
import { Decoder } from '@msgpack/msgpack';
import type { RawFrames } from '#shared/cache.ts';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { KvRow } from '#shared/kv.ts';
import { decodeMessage, DEFAULT_DECODE_LIMITS } from './decode-batch.ts';
import type { FrameRing, KeptFrame } from './frame-ring.ts';
import { checkMsgpack } from './msgpack-guard.ts';

/** Of one frame, bytes shown as hex. */
const HEX_BYTES = 16 * 1024;
/** Of the decoded payload, characters. */
const DECODED_CHARS = 64 * 1024;
/** Topic, sequence, payload (vllm/distributed/kv_events.py). */
const NAMES = ['topic', 'sequence', 'payload'] as const;
/** pdscope's own rows: no message says these things. */
const OWN_KINDS: ReadonlySet<string> = new Set(['gap', 'filled', 'lost', 'restart']);

const decoder = new Decoder({ useBigInt64: true, mapKeyConverter: (key) => (typeof key === 'number' ? key : String(key)) });

/**
 * The message that a row came in.
 * @param row undefined when it is not kept.
 * @throws PdscopeError `kv_row_not_kept`, `kv_row_without_message`, `kv_frames_evicted`.
 */
export function rawFrames(n: number, row: KvRow | undefined, ring: FrameRing): RawFrames {
  if (row === undefined) {
    throw new PdscopeError('kv_row_not_kept', `KV event ${n} is not kept: it was evicted, cleared, or has not happened yet.`);
  }
  if (OWN_KINDS.has(row.kind)) {
    throw new PdscopeError('kv_row_without_message', `Row ${n} (${row.kind}) is what pdscope noticed about the stream: it came in no message of its own. Look at the events beside it.`);
  }
  const kept = ring.find(n);
  // Rows of one message share its time of receipt: another time means that the message itself is gone.
  if (kept === 'evicted' || kept.receivedAtUnixMs !== row.receivedAtUnixMs) {
    throw new PdscopeError('kv_frames_evicted', `The frames of KV event ${n} are not kept any more: only the most recent messages are (${ring.kept} now). Pause the view sooner, or filter with pdscope events --json.`);
  }
  const isUsual = kept.frames.length === NAMES.length;
  const payload = isUsual ? kept.frames[2] : undefined;
  const problem = problemOf(kept.frames);
  const decoded = payload === undefined ? undefined : decodedText(payload);
  return {
    n,
    stream: row.stream,
    ...(row.seq !== undefined && { seq: row.seq }),
    receivedAtUnixMs: kept.receivedAtUnixMs,
    frames: kept.frames.map((frame, index) => ({
      name: (isUsual ? NAMES[index] : undefined) ?? 'other',
      bytes: frame.length,
      hex: frame.bytes.toString('hex', 0, Math.min(frame.bytes.length, HEX_BYTES)),
      isCut: frame.length > Math.min(frame.bytes.length, HEX_BYTES),
    })),
    ...(decoded !== undefined && { decoded }),
    ...(problem !== undefined && { problem }),
  };
}

/** What is wrong with the message, in the decoder's own words. */
function problemOf(frames: readonly KeptFrame[]): string | undefined {
  const cut = frames.find(({ length, bytes }) => bytes.length < length);
  if (cut !== undefined) return `only the first ${cut.bytes.length} of ${cut.length} bytes of a frame were kept`;
  const result = decodeMessage(frames.map(({ bytes }) => bytes));
  return result.ok ? undefined : `${result.reason}: ${result.detail}`;
}

/** Any msgpack value, whether or not it is a batch. */
function decodedText({ length, bytes }: KeptFrame): string | undefined {
  if (bytes.length < length || checkMsgpack(bytes, DEFAULT_DECODE_LIMITS) !== undefined) return undefined;
  try {
    return jsonText(decoder.decode(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)));
  } catch (error) {
    return `not decoded: ${errorMessage(error)}`;
  }
}

function jsonText(value: unknown): string {
  const text = JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part === 'bigint') return part.toString();
    // JSON has no such numbers, and null would hide them.
    if (typeof part === 'number' && !Number.isFinite(part)) return String(part);
    return part instanceof Uint8Array ? Buffer.from(part.buffer, part.byteOffset, part.length).toString('hex') : part;
  }) ?? 'null';
  return text.length > DECODED_CHARS ? `${text.slice(0, DECODED_CHARS - 1)}…` : text;
}
