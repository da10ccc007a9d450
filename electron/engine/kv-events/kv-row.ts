/** Rows of the KV events view, made from decoded events and from what pdscope noticed about a stream. */
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { BlockHashHex, KvRow } from '#shared/kv.ts';
import { hashCount, hashHex, type BlockHashes } from './block-hashes.ts';
import type { KvEvent } from './kv-event.ts';
import { rawJson } from './raw-json.ts';

/** Which stream, as rows and views name it. */
export interface StreamIdentity {
  readonly id: StreamId;
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly rank: number;
}

/** What the rows of one batch share. */
export interface RowSource {
  readonly stream: StreamIdentity;
  readonly epoch: number;
  readonly seq: number | undefined;
  readonly tsUnixMs: number | undefined;
  readonly receivedAtUnixMs: number;
}

/** Something that pdscope noticed; not an event of the engine. */
export interface Notice {
  readonly kind: 'gap' | 'restart' | 'error';
  readonly note: string;
}

export type RowEvent = KvEvent | Notice;

const MAX_ROW_HASHES = 16;
const MAX_ROW_TOKENS = 32;

type RowDraft = { -readonly [Key in keyof KvRow]: KvRow[Key] };

export function toRow(n: number, source: RowSource, event: RowEvent): KvRow {
  const { stream } = source;
  const row: RowDraft = {
    n,
    stream: stream.id,
    instance: stream.instance,
    instanceName: stream.instanceName,
    rank: stream.rank,
    epoch: source.epoch,
    receivedAtUnixMs: source.receivedAtUnixMs,
    kind: event.kind === 'bad' ? 'error' : event.kind,
    hashes: [],
    hashCount: 0,
  };
  if (source.seq !== undefined) row.seq = source.seq;
  switch (event.kind) {
    case 'gap': case 'restart': case 'error':
      row.note = event.note;
      return row;
    case 'bad':
      row.note = `${event.reason}: ${event.raw}`;
      break;
    case 'unknown':
      row.note = `${event.tag}: ${event.raw}`;
      break;
    case 'stored':
      if (event.parent !== undefined) row.parent = hashHex(event.parent, 0);
      row.blockSize = event.blockSize;
      row.tokenCount = event.tokens.length;
      row.tokens = Array.from(event.tokens.subarray(0, MAX_ROW_TOKENS));
      if (event.loraName !== undefined) row.loraName = event.loraName;
      if (event.loraId !== undefined) row.loraId = event.loraId;
      if (event.specKind !== undefined) row.specKind = event.specKind;
      if (event.slidingWindow !== undefined) row.slidingWindow = event.slidingWindow;
      if (event.sessionId !== undefined) row.sessionId = event.sessionId;
      if (event.extraKeys?.some((keys) => keys !== null) === true) row.extraKeys = rawJson(event.extraKeys);
      if (event.cacheSalt !== undefined) row.note = `cache_salt ${JSON.stringify(event.cacheSalt)}`;
      break;
    case 'removed':
      if (event.remainingCopies !== undefined) row.note = `copies left: ${event.remainingCopies.slice(0, MAX_ROW_HASHES).join(', ')}`;
      break;
    case 'cleared':
      break;
  }
  if (source.tsUnixMs !== undefined) row.engineTsUnixMs = source.tsUnixMs;
  if (event.kind === 'stored' || event.kind === 'removed' || event.kind === 'unknown') {
    row.hashes = firstHashes(event.hashes);
    row.hashCount = hashCount(event.hashes);
    if (event.medium !== undefined) row.medium = event.medium;
    if (event.groupIdx !== undefined) row.groupIdx = event.groupIdx;
  }
  if (event.kind === 'stored' || event.kind === 'removed') {
    if (event.locality !== undefined) row.locality = event.locality;
    if (event.ownership !== undefined) row.ownership = event.ownership;
  }
  return row;
}

/** Memory that a kept event takes, about, bytes: its arrays, and the object around them. */
export function eventBytes(event: RowEvent): number {
  switch (event.kind) {
    case 'stored': return 400 + event.tokens.byteLength + hashBytes(event.hashes) + 16 * (event.extraKeys?.length ?? 0);
    case 'removed': return 200 + hashBytes(event.hashes);
    case 'unknown': return 200 + hashBytes(event.hashes) + event.raw.length;
    case 'bad': return 100 + event.raw.length + event.reason.length;
    case 'gap': case 'restart': case 'error': return 100 + event.note.length;
    case 'cleared': break;
  }
  return 40;
}

function hashBytes(hashes: BlockHashes): number {
  return hashes.words.byteLength + (hashes.digests === undefined ? 0 : hashes.digests.length * 88);
}

function firstHashes(hashes: BlockHashes): BlockHashHex[] {
  const first: BlockHashHex[] = [];
  for (let index = 0; index < Math.min(MAX_ROW_HASHES, hashCount(hashes)); index += 1) first.push(hashHex(hashes, index));
  return first;
}
