/** What the row of an event must be, straight from the event: the model that the packed history is held against. */
import type { BlockHashHex, KvRow } from '#shared/kv.ts';
import { hashCount, hashHex, type BlockHashes } from '#engine/kv-events/block-hashes.ts';
import type { RowEvent, RowSource } from '#engine/kv-events/kv-row.ts';
import { rawJson } from '#engine/kv-events/raw-json.ts';
import { copyOfRun } from '#engine/kv-events/word-run.ts';

const MAX_ROW_HASHES = 16;
const MAX_ROW_TOKENS = 32;

type RowDraft = { -readonly [Key in keyof KvRow]: KvRow[Key] };

export function referenceRow(n: number, source: RowSource, event: RowEvent): KvRow {
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
    case 'gap': case 'filled': case 'lost': case 'restart': case 'error':
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
      row.tokens = Array.from(copyOfRun(event.tokens, MAX_ROW_TOKENS));
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
    if (event.unread !== undefined) row.note = `${row.note === undefined ? '' : `${row.note}; `}fields not known: ${event.unread}`;
    if (event.locality !== undefined) row.locality = event.locality;
    if (event.ownership !== undefined) row.ownership = event.ownership;
  }
  return row;
}

function firstHashes(hashes: BlockHashes): BlockHashHex[] {
  const first: BlockHashHex[] = [];
  for (let index = 0; index < Math.min(MAX_ROW_HASHES, hashCount(hashes)); index += 1) first.push(hashHex(hashes, index));
  return first;
}
