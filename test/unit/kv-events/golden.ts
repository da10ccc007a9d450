/** The golden KV-event vectors (test/fixtures/golden/README.md), and decoded events in their notation. */
import { readFileSync } from 'node:fs';
import { hashCount, hashDecimal, hashHex, type BlockHashes } from '#engine/kv-events/block-hashes.ts';
import { copyOfRun } from '#engine/kv-events/word-run.ts';
import type { KvEvent } from '#engine/kv-events/kv-event.ts';

export interface GoldenVector {
  readonly name: string;
  readonly event_layout: 'array' | 'map';
  readonly frames_hex: readonly string[];
  readonly decoded: {
    readonly topic: string;
    readonly seq: number;
    readonly batch: { readonly ts: number; readonly events: readonly GoldenEvent[]; readonly data_parallel_rank?: number | null; readonly attn_dp_rank?: number | null };
  };
}

export type GoldenEvent = Readonly<Record<string, unknown>> & { readonly type: string };

export interface GoldenReplay {
  readonly name: string;
  readonly client_socket: 'DEALER' | 'REQ';
  readonly request_frames_hex: readonly string[];
  readonly reply_frames_hex: readonly (readonly string[])[];
  readonly decoded: readonly { readonly topic: string | null; readonly seq: number; readonly end: boolean; readonly batch: readonly unknown[] | null }[];
}

function read(file: string): unknown {
  return JSON.parse(readFileSync(new URL(`../../fixtures/golden/${file}`, import.meta.url), 'utf8'));
}

export const vectors = read('kv-events.json') as readonly GoldenVector[];
export const replays = read('kv-events-replay.json') as readonly GoldenReplay[];

export function frames(hex: readonly string[]): Buffer[] {
  return hex.map((frame) => Buffer.from(frame, 'hex'));
}

export function vector(name: string): GoldenVector {
  const found = vectors.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`no golden vector ${name}`);
  return found;
}

/** Our event with the engine's field names, hashes and integers in the golden notation; undefined fields left out. */
export function asGolden(event: KvEvent): Readonly<Record<string, unknown>> {
  switch (event.kind) {
    case 'stored':
      return {
        type: 'BlockStored',
        block_hashes: goldenHashes(event.hashes),
        parent_block_hash: event.parent === undefined ? undefined : goldenHashes(event.parent)[0],
        token_ids: Array.from(copyOfRun(event.tokens)),
        block_size: event.blockSize,
        lora_id: event.loraId,
        medium: event.medium,
        lora_name: event.loraName,
        extra_keys: event.extraKeys?.map(goldenValue),
        group_idx: event.groupIdx,
        kv_cache_spec_kind: event.specKind,
        kv_cache_spec_sliding_window: event.slidingWindow,
        locality: event.locality,
        ownership: event.ownership,
        session_id: event.sessionId,
        cache_salt: event.cacheSalt,
      };
    case 'removed':
      return {
        type: 'BlockRemoved',
        block_hashes: goldenHashes(event.hashes),
        medium: event.medium,
        group_idx: event.groupIdx,
        locality: event.locality,
        ownership: event.ownership,
        remaining_copy_counts: event.remainingCopies,
      };
    case 'cleared': return { type: 'AllBlocksCleared' };
    case 'unknown': return { type: event.tag, block_hashes: goldenHashes(event.hashes), medium: event.medium, group_idx: event.groupIdx };
    case 'bad': break;
  }
  return { type: 'bad', reason: event.reason };
}

function goldenHashes(hashes: BlockHashes): unknown[] {
  return Array.from({ length: hashCount(hashes) }, (_, index) => {
    if (hashes.digests?.[index] !== undefined) return { $bytes: hashHex(hashes, index) };
    const decimal = hashDecimal(hashes, index);
    return Number.isSafeInteger(Number(decimal)) ? Number(decimal) : { $int: decimal };
  });
}

function goldenValue(value: unknown): unknown {
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('hex') };
  return Array.isArray(value) ? value.map(goldenValue) : value;
}

/** The golden event with nil as absent, and SGLang's bigram pages as the tokens they stand for. */
export function expectedEvent(event: GoldenEvent): Readonly<Record<string, unknown>> {
  const present = Object.entries(event).filter(([, value]) => value !== null);
  return Object.fromEntries(present.map(([name, value]) => [name, name === 'token_ids' ? firstOfPairs(value) : value]));
}

function firstOfPairs(tokens: unknown): unknown {
  return Array.isArray(tokens) ? tokens.map((token: unknown) => (Array.isArray(token) ? (token[0] as unknown) : token)) : tokens;
}
