/** KV events as lines of text and as JSON objects, for `pdscope events`. Text is for eyes, JSON is complete and exact. */
import { hashCount, hashDecimal, hashHex, type BlockHashes } from './block-hashes.ts';
import type { KvEvent, RemovedEvent, StoredEvent, UnreadFields } from './kv-event.ts';
import type { Notice } from './kv-row.ts';
import type { WatchRecord } from './watch.ts';
import { copyOfRun } from './word-run.ts';

export interface TextOptions {
  /** Hashes shown before the rest is a count. Default 2. */
  readonly maxHashes?: number;
  /** Token ids shown. Default 8. */
  readonly maxTokens?: number;
  /** Show the rank; for more than one. Default false. */
  readonly hasRanks?: boolean;
}

/** Of the extra keys of an event, on a line. */
const MAX_KEY_CHARS = 160;

/**
 * One line: time, sequence, kind, blocks with hashes, `<-` parent, medium, tokens.
 * `12:00:01.250 #17     stored   2 blocks c910c6b15f1388cf 115e07e8277befe8 <-a3da5751f73e1ba1 GPU 32 tokens of 16: 1 2 3…`
 */
export function formatText(record: WatchRecord, options: TextOptions = {}): string {
  const at = new Date(record.tsUnixMs ?? record.receivedAtUnixMs).toISOString().slice(11, 23);
  const seq = (record.seq === undefined ? '-' : `#${record.seq}`).padEnd(7);
  const rank = options.hasRanks === true ? `r${record.rank} ` : '';
  const kind = (record.event.kind === 'bad' ? 'error' : record.event.kind).padEnd(8);
  return `${at} ${rank}${seq} ${kind} ${describeEvent(record.event, options)}`.trimEnd();
}

function describeEvent(event: KvEvent | Notice, options: TextOptions): string {
  switch (event.kind) {
    case 'gap': case 'filled': case 'lost': case 'restart': case 'error': return event.note;
    case 'bad': return `${event.reason}: ${event.raw}`;
    case 'unknown': return `${event.tag} ${event.raw}`;
    case 'removed': return [blocks(event.hashes, options), ...place(event), ...unread(event)].join(' ');
    case 'stored': {
      const parent = event.parent === undefined ? '<-root' : `<-${hashHex(event.parent, 0)}`;
      return [blocks(event.hashes, options), parent, ...place(event), tokens(event, options), ...details(event), ...unread(event)].join(' ');
    }
    case 'cleared': break;
  }
  return 'all GPU blocks of this rank';
}

function blocks(hashes: BlockHashes, { maxHashes = 2 }: TextOptions): string {
  const count = hashCount(hashes);
  const shown = Array.from({ length: Math.min(count, maxHashes) }, (_, index) => hashHex(hashes, index));
  if (count > maxHashes) shown.push(`+${count - maxHashes}`);
  return `${count} ${count === 1 ? 'block' : 'blocks'}${shown.length === 0 ? '' : ` ${shown.join(' ')}`}`;
}

function place(event: StoredEvent | RemovedEvent): string[] {
  return [
    event.medium ?? 'medium?',
    ...(event.groupIdx === undefined || event.groupIdx === 0 ? [] : [`group ${event.groupIdx}`]),
    ...(event.locality === undefined ? [] : [event.locality]),
    ...(event.ownership === undefined ? [] : [`owner ${event.ownership}`]),
  ];
}

function tokens(event: StoredEvent, { maxTokens = 8 }: TextOptions): string {
  if (event.blockSize === 0 && event.tokens.length === 0) return 'tokens not said';
  const shown = copyOfRun(event.tokens, maxTokens).join(' ');
  return `${event.tokens.length} tokens of ${event.blockSize}${shown === '' ? '' : `: ${shown}`}${event.tokens.length > maxTokens ? '…' : ''}`;
}

/** Fields that pdscope does not know, as they came. */
function unread(event: UnreadFields): string[] {
  return event.unread === undefined ? [] : [`fields not known: ${event.unread}`];
}

function details(event: StoredEvent): string[] {
  return [
    ...(event.loraName === undefined ? [] : [`lora ${event.loraName}`]),
    ...(event.specKind === undefined || event.specKind === 'full_attention' ? [] : [event.specKind]),
    ...(event.slidingWindow === undefined ? [] : [`of ${event.slidingWindow}`]),
    ...(event.cacheSalt === undefined ? [] : [`salt ${JSON.stringify(event.cacheSalt)}`]),
    ...(event.extraKeys?.some((keys) => keys !== null) === true ? [`keys ${cut(JSON.stringify(event.extraKeys.map(jsonValue)))}`] : []),
    ...(event.sessionId === undefined ? [] : [`session ${event.sessionId}`]),
  ];
}

function cut(text: string): string {
  return text.length > MAX_KEY_CHARS ? `${text.slice(0, MAX_KEY_CHARS - 1)}…` : text;
}

/**
 * Everything about a record. Hashes are hex (the whole digest of the bytes form) in `hashes`, and the exact 64-bit integer as
 * the engine publishes it, in decimal text, in `hashesDecimal`: no JSON number can hold it. Absent means not sent.
 */
export function formatJson(record: WatchRecord): Readonly<Record<string, unknown>> {
  return {
    kind: record.event.kind === 'bad' ? 'error' : record.event.kind,
    rank: record.rank,
    epoch: record.epoch,
    seq: record.seq,
    tsUnixMs: record.tsUnixMs,
    receivedAtUnixMs: record.receivedAtUnixMs,
    ...(record.isReplayed && { replayed: true }),
    ...eventFields(record.event),
  };
}

function eventFields(event: KvEvent | Notice): Readonly<Record<string, unknown>> {
  switch (event.kind) {
    case 'gap': case 'filled': case 'lost': case 'restart': case 'error': return { note: event.note };
    case 'bad': return { note: event.reason, raw: event.raw };
    case 'unknown': return { type: event.tag, ...hashFields(event.hashes), medium: event.medium, groupIdx: event.groupIdx, raw: event.raw };
    case 'removed': return { ...hashFields(event.hashes), ...placeFields(event), remainingCopies: event.remainingCopies, unread: event.unread };
    case 'stored':
      return {
        ...hashFields(event.hashes),
        parent: event.parent === undefined ? null : hashHex(event.parent, 0),
        parentDecimal: event.parent === undefined ? null : hashDecimal(event.parent, 0),
        blockSize: event.blockSize,
        tokens: Array.from(copyOfRun(event.tokens)),
        ...placeFields(event),
        loraId: event.loraId,
        loraName: event.loraName,
        extraKeys: event.extraKeys?.map(jsonValue),
        specKind: event.specKind,
        slidingWindow: event.slidingWindow,
        sessionId: event.sessionId,
        cacheSalt: event.cacheSalt,
        unread: event.unread,
      };
    case 'cleared': break;
  }
  return {};
}

function hashFields(hashes: BlockHashes): Readonly<Record<string, unknown>> {
  const indices = Array.from({ length: hashCount(hashes) }, (_, index) => index);
  return { hashes: indices.map((index) => hashHex(hashes, index)), hashesDecimal: indices.map((index) => hashDecimal(hashes, index)) };
}

function placeFields(event: StoredEvent | RemovedEvent): Readonly<Record<string, unknown>> {
  return { medium: event.medium, groupIdx: event.groupIdx, locality: event.locality, ownership: event.ownership };
}

function jsonValue(value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('hex') };
  if (typeof value === 'bigint') return value.toString();
  return Array.isArray(value) ? value.map(jsonValue) : value;
}
