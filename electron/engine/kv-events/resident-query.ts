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

function search(
  owners: readonly Owner[], store: BlockStore, input: ParsedOperationInput<'kv.blocks'>,
): { readonly slots: readonly number[]; readonly matching: number } {
  const prefix = input.hash?.toLowerCase() ?? '';
  const perOwner = owners.map((owner) => {
    const slots: number[] = [];
    let matching = prefix === '' ? owner.count : 0;
    for (const slot of store.slotsOf(owner)) {
      if (prefix !== '') {
        if (!matches(store, slot, prefix)) continue;
        matching += 1;
      } else if (slots.length >= input.limit) break;
      if (slots.length < input.limit) slots.push(slot);
    }
    return { slots, matching };
  });
  const slots = perOwner.flatMap((part) => part.slots);
  slots.sort((a, b) => store.read(b).storedAtUnixMs - store.read(a).storedAtUnixMs);
  return { slots: slots.slice(0, input.limit), matching: perOwner.reduce((sum, part) => sum + part.matching, 0) };
}

/** A prefix of the whole digest, or of the 64-bit form that names the same block. */
function matches(store: BlockStore, slot: number, prefix: string): boolean {
  const { high, low, digest } = store.keyOf(slot);
  if (digest?.startsWith(prefix) === true) return true;
  return keyHex(high, low).startsWith(prefix);
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
