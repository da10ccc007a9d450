/**
 * ZMQ frames of the KV-event stream to a batch of events (vllm/distributed/kv_events.py: topic, 8-byte big-endian
 * sequence, msgpack payload). Pure and free of sockets and clocks, so it can be measured alone and moved to a worker.
 * Never throws: one bad event costs that event, one bad message that message.
 */
import { Decoder } from '@msgpack/msgpack';
import { errorMessage } from '#shared/errors.ts';
import { describe, hashCount } from './block-hashes.ts';
import { asInteger, decodeEvent, isMap } from './decode-event.ts';
import { readKnownBatch } from './known-batch.ts';
import { mergeForm, timeOf, type Encoding, type HashForm, type KvBatch, type KvEvent } from './kv-event.ts';
import { checkMsgpack, type GuardLimits } from './msgpack-guard.ts';

export interface DecodeLimits extends GuardLimits {
  readonly maxPayloadBytes: number;
  readonly maxEvents: number;
  /** Block hashes of all events of a batch. */
  readonly maxBlocks: number;
}

/**
 * Room for any real batch (128 K prompt tokens are about half a megabyte, and evict 8,192 blocks of 16, one event each);
 * vLLM's own nesting is 6 deep, with extra keys. A batch is applied at once, so a message of a million tiny events would
 * hold up everything else for a second.
 */
export const DEFAULT_DECODE_LIMITS: DecodeLimits = { maxPayloadBytes: 16 * 1024 * 1024, maxDepth: 16, maxNodes: 4_000_000, maxEvents: 65_536, maxBlocks: 524_288 };

export type BadReason = 'frame-count' | 'sequence' | 'too-large' | 'malformed' | 'not-a-batch';

export type PayloadResult =
  | { readonly ok: true; readonly batch: KvBatch }
  | { readonly ok: false; readonly reason: BadReason; readonly detail: string };

export type MessageResult =
  | { readonly ok: true; readonly topic: string; readonly seq: number; readonly batch: KvBatch }
  | { readonly ok: false; readonly reason: BadReason; readonly detail: string; readonly seq: number | undefined };

const decoder = new Decoder({ useBigInt64: true, mapKeyConverter: (key) => (typeof key === 'number' ? key : String(key)) });

/** Decodes a live message: exactly topic, sequence and payload. `seq` is present in a failure when it could be read. */
export function decodeMessage(frames: readonly Uint8Array[], limits: DecodeLimits = DEFAULT_DECODE_LIMITS): MessageResult {
  const [topic, sequence, payload] = frames;
  if (frames.length !== 3 || topic === undefined || sequence === undefined || payload === undefined) {
    return { ok: false, reason: 'frame-count', detail: `${frames.length} ${frames.length === 1 ? 'frame' : 'frames'} instead of topic, sequence and payload`, seq: undefined };
  }
  const seq = readSequence(sequence);
  if (seq === undefined) {
    return { ok: false, reason: 'sequence', detail: `sequence frame is 0x${toHex(sequence)}, not 8 bytes counting up from 0`, seq };
  }
  const result = decodePayload(payload, limits);
  return result.ok ? { ok: true, topic: decodeTopic(topic), seq, batch: result.batch } : { ...result, seq };
}

/** Decodes a payload frame, live or replayed. */
export function decodePayload(payload: Uint8Array, limits: DecodeLimits = DEFAULT_DECODE_LIMITS): PayloadResult {
  if (payload.length > limits.maxPayloadBytes) {
    return { ok: false, reason: 'too-large', detail: `payload of ${payload.length} bytes, limit ${limits.maxPayloadBytes}` };
  }
  const known = readKnownBatch(payload, limits);
  return known === undefined ? decodeGeneric(payload, limits) : withinBlocks(known, limits);
}

/** Decodes whatever the payload is, by its values. `decodePayload` gives the same, sooner for what is well formed. */
export function decodeGeneric(payload: Uint8Array, limits: DecodeLimits = DEFAULT_DECODE_LIMITS): PayloadResult {
  const refusal = checkMsgpack(payload, limits);
  if (refusal !== undefined) return { ok: false, reason: 'malformed', detail: `payload: ${refusal}` };
  let value: unknown;
  try {
    // A Buffer's subarrays are Buffers, whose toJSON is in the way; a plain view costs nothing.
    value = decoder.decode(new Uint8Array(payload.buffer, payload.byteOffset, payload.byteLength));
  } catch (error) {
    return { ok: false, reason: 'malformed', detail: `payload: ${errorMessage(error)}` };
  }
  return readBatch(value, limits);
}

/** The 8-byte big-endian sequence; undefined when it has another length or is past what counting from 0 can reach. */
export function readSequence(frame: Uint8Array): number | undefined {
  if (frame.length !== 8) return undefined;
  let seq = 0;
  for (let at = 0; at < 8; at += 1) seq = seq * 0x100 + (frame[at] ?? 0);
  return Number.isSafeInteger(seq) ? seq : undefined;
}

const utf8 = new TextDecoder();

/** Topics are UTF-8 by convention; other bytes show as replacement characters. */
export function decodeTopic(frame: Uint8Array): string {
  return frame.length === 0 ? '' : utf8.decode(frame);
}

/** Array `[ts, events, rank?]`; the map form was in an early head of vLLM's pull request 42892, and costs little. */
function readBatch(value: unknown, limits: DecodeLimits): PayloadResult {
  let ts: unknown;
  let events: unknown;
  let rank: unknown;
  let extra = 0;
  if (Array.isArray(value)) {
    [ts, events, rank] = value as readonly unknown[];
    extra = Math.max(0, value.length - 3);
  } else if (isMap(value)) {
    ts = value['ts'];
    events = value['events'];
    rank = value['data_parallel_rank'] ?? value['attn_dp_rank'];
    for (const name in value) if (!BATCH_FIELDS.has(name)) extra += 1;
  } else {
    return { ok: false, reason: 'not-a-batch', detail: `payload is ${describe(value)}, not a batch` };
  }
  if (!Array.isArray(events)) return { ok: false, reason: 'not-a-batch', detail: `the batch's events are ${describe(events)}` };
  if (events.length > limits.maxEvents) return { ok: false, reason: 'too-large', detail: `${events.length} events in one batch, limit ${limits.maxEvents}` };
  return withinBlocks(readEvents(events as readonly unknown[], ts, { rank, extra }), limits);
}

function withinBlocks(batch: KvBatch, { maxBlocks }: DecodeLimits): PayloadResult {
  let blocks = 0;
  for (const event of batch.events) if (event.kind === 'stored' || event.kind === 'removed') blocks += hashCount(event.hashes);
  return blocks <= maxBlocks ? { ok: true, batch } : { ok: false, reason: 'too-large', detail: `${blocks} block hashes in one batch, limit ${maxBlocks}` };
}

const BATCH_FIELDS: ReadonlySet<string> = new Set(['ts', 'events', 'data_parallel_rank', 'attn_dp_rank']);

function readEvents(values: readonly unknown[], ts: unknown, rest: { readonly rank: unknown; readonly extra: number }): KvBatch {
  const events: KvEvent[] = [];
  let encoding: Encoding | undefined;
  let form: HashForm | undefined;
  let unknownFields = rest.extra;
  for (const value of values) {
    const decoded = decodeEvent(value);
    events.push(decoded.event);
    encoding = mergeForm(encoding, decoded.encoding);
    form = mergeForm(form, hashForm(decoded.event));
    unknownFields += decoded.unknownFields;
  }
  return {
    tsUnixMs: timeOf(ts),
    rank: asInteger(rest.rank),
    events,
    encoding,
    hashForm: form,
    unknownFields,
  };
}

function hashForm(event: KvEvent): HashForm | undefined {
  if (event.kind !== 'stored' && event.kind !== 'removed') return undefined;
  const { digests } = event.hashes;
  const count = hashCount(event.hashes);
  if (count === 0) return undefined;
  if (digests === undefined) return 'int';
  for (let index = 0; index < count; index += 1) if (digests[index] === undefined) return 'mixed';
  return 'bytes';
}

function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 16)).toString('hex');
}
