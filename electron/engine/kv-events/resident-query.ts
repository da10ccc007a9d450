/** Answers `kv.blocks`: resident blocks by stream, medium and hash, newest first. */
import type { ParsedOperationInput, ResidentPage } from '#shared/operations.ts';
import type { KvBlockView } from '#shared/kv.ts';
import { keyHex } from './block-hashes.ts';
import type { BlockStore, Owner } from './block-store.ts';
import type { StreamIdentity } from './kv-row.ts';
import { normaliseMedium, type Residency, type ResidentTable } from './resident-table.ts';

/** A stream's table with the names that views need. */
export interface ResidentStream {
  readonly identity: StreamIdentity;
  readonly resident: ResidentTable;
}

interface Place {
  readonly stream: StreamIdentity;
  readonly residency: Residency;
}

/**
 * `total` counts all blocks; `matching` those that fit. Without a hash that costs little; a hash prefix walks every
 * block of the chosen streams, some milliseconds for a million.
 */
export function queryResident(streams: readonly ResidentStream[], store: BlockStore, input: ParsedOperationInput<'kv.blocks'>): ResidentPage {
  const medium = input.medium === undefined ? undefined : normaliseMedium(input.medium);
  const places = new Map<number, Place>();
  const owners: Owner[] = [];
  for (const { identity, resident } of streams) {
    if (input.stream !== undefined && identity.id !== input.stream) continue;
    for (const residency of resident.residencies) {
      if (medium !== undefined && residency.medium !== medium) continue;
      places.set(residency.owner.id, { stream: identity, residency });
      owners.push(residency.owner);
    }
  }
  const found = search(owners, store, input);
  const blocks: KvBlockView[] = [];
  for (const slot of found.slots) {
    const place = places.get(store.read(slot).owner);
    if (place !== undefined) blocks.push(toView(slot, store, place));
  }
  return {
    blocks,
    matching: found.matching,
    total: store.size,
    byStream: streams.map(({ identity, resident }) => ({ stream: identity.id, instanceName: identity.instanceName, resident: resident.counts() })),
    evicted: store.evicted,
  };
}

interface Found {
  readonly slots: readonly number[];
  readonly matching: number;
}

function search(owners: readonly Owner[], store: BlockStore, input: ParsedOperationInput<'kv.blocks'>): Found {
  const prefix = input.hash?.toLowerCase() ?? '';
  const exact = findExact(owners, store, prefix);
  const parts = exact.length > 0 ? [{ slots: exact, matching: exact.length }] : owners.map((owner) => searchOwner(owner, store, { prefix, limit: input.limit }));
  const slots = parts.flatMap((part) => part.slots);
  slots.sort((a, b) => store.read(b).storedAtUnixMs - store.read(a).storedAtUnixMs);
  return { slots: slots.slice(0, input.limit), matching: parts.reduce((sum, part) => sum + part.matching, 0) };
}

/** A whole hash, as pasted from a row or a log, needs no walk. */
function findExact(owners: readonly Owner[], store: BlockStore, hash: string): number[] {
  if (hash.length < KEY_DIGITS) return [];
  const high = Number.parseInt(hash.slice(-KEY_DIGITS, -KEY_DIGITS / 2), 16);
  const low = Number.parseInt(hash.slice(-KEY_DIGITS / 2), 16);
  return owners
    .map((owner) => store.find(owner, high, low))
    .filter((slot) => slot !== 0 && (hash.length === KEY_DIGITS || store.keyOf(slot).digest === hash));
}

function searchOwner(owner: Owner, store: BlockStore, { prefix, limit }: { readonly prefix: string; readonly limit: number }): Found {
  const slots: number[] = [];
  if (prefix === '') {
    for (const slot of store.slotsOf(owner)) {
      if (slots.length >= limit) break;
      slots.push(slot);
    }
    return { slots, matching: owner.count };
  }
  const matches = prefixTest(prefix);
  let matching = 0;
  for (const slot of store.slotsOf(owner)) {
    if (!matches(store.keyOf(slot))) continue;
    matching += 1;
    if (slots.length < limit) slots.push(slot);
  }
  return { slots, matching };
}

/** Hex digits of the 64-bit form. */
const KEY_DIGITS = 16;

type Key = ReturnType<BlockStore['keyOf']>;

/** A prefix of the whole digest, or of the 64-bit form that names the same block; compared as numbers, as most have no digest. */
function prefixTest(prefix: string): (key: Key) => boolean {
  const ofDigest = ({ digest }: Key): boolean => digest?.startsWith(prefix) === true;
  if (prefix.length > KEY_DIGITS) return ofDigest;
  const highPart = Number.parseInt(prefix.slice(0, 8), 16);
  if (prefix.length <= 8) {
    const shift = 32 - 4 * prefix.length;
    return (key) => key.high >>> shift === highPart || ofDigest(key);
  }
  const lowPart = Number.parseInt(prefix.slice(8), 16);
  const shift = 64 - 4 * prefix.length;
  return (key) => (key.high === highPart && key.low >>> shift === lowPart) || ofDigest(key);
}

function toView(slot: number, store: BlockStore, { stream, residency }: Place): KvBlockView {
  const block = store.read(slot);
  const parent = block.parentDigest ?? (block.parent === undefined ? undefined : keyHex(block.parent[0], block.parent[1]));
  return {
    hash: block.digest ?? keyHex(block.high, block.low),
    stream: stream.id,
    instanceName: stream.instanceName,
    medium: residency.medium,
    ...(residency.groupIdx !== undefined && { groupIdx: residency.groupIdx }),
    ...(parent !== undefined && { parent }),
    // Placeholders have block size 0: the size is unknown, not zero.
    ...(block.blockSize > 0 && { blockSize: block.blockSize }),
    ...(block.tokens !== undefined && { tokens: block.tokens }),
    copies: block.copies,
    storedAtUnixMs: block.storedAtUnixMs,
    stores: block.stores,
  };
}
