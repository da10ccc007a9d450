/** Answers `kv.blocks` from the index: blocks held by stream, medium and hash, newest first. */
import type { KvBlockView } from '#shared/kv.ts';
import type { ParsedOperationInput, ResidentPage } from '#shared/operations.ts';
import { keyHex } from '../kv-events/block-hashes.ts';
import type { BlockGraph } from './block-graph.ts';
import type { Residency } from './residency.ts';
import { normaliseMedium } from './residency.ts';
import type { StreamBlocks } from './stream-blocks.ts';

/** Hex digits of the 64-bit form. */
const KEY_DIGITS = 16;

interface Found {
  readonly slots: readonly number[];
  readonly matching: number;
}

/**
 * `total` counts all blocks; `matching` those that fit. Without a hash, or with a whole one, that costs little; a prefix
 * of a hash walks every block of the chosen streams, some milliseconds for a million.
 */
export function listBlocks(graph: BlockGraph, streams: readonly StreamBlocks[], input: ParsedOperationInput<'kv.blocks'>): ResidentPage {
  const open = streams.filter((stream) => !stream.isClosed);
  const medium = input.medium === undefined ? undefined : normaliseMedium(input.medium);
  const chosen = open
    .filter(({ identity }) => input.stream === undefined || identity.id === input.stream)
    .flatMap(({ residencies }) => residencies.filter((residency) => medium === undefined || residency.medium === medium));
  const found = search(graph, chosen, input);
  return {
    blocks: found.slots.map((slot) => toView(graph, slot)).filter((view) => view !== undefined),
    matching: found.matching,
    total: graph.holdings.live,
    byStream: open.map((stream) => ({ stream: stream.identity.id, instanceName: stream.identity.instanceName, resident: stream.counts() })),
    evicted: graph.evicted,
  };
}

function search(graph: BlockGraph, residencies: readonly Residency[], { hash = '', limit }: ParsedOperationInput<'kv.blocks'>): Found {
  const { holdings } = graph;
  const prefix = hash.toLowerCase();
  const exact = findExact(graph, residencies, prefix);
  const parts = exact.length > 0 ? [{ slots: exact, matching: exact.length }] : residencies.map((residency) => searchOne(graph, residency, { prefix, limit }));
  const slots = parts.flatMap((part) => part.slots).sort((a, b) => holdings.storedAt(b) - holdings.storedAt(a));
  return { slots: slots.slice(0, limit), matching: parts.reduce((sum, part) => sum + part.matching, 0) };
}

/** A whole hash, as pasted from a row or a log, needs no walk. */
function findExact({ holdings }: BlockGraph, residencies: readonly Residency[], hash: string): number[] {
  if (hash.length < KEY_DIGITS) return [];
  const high = Number.parseInt(hash.slice(-KEY_DIGITS, -KEY_DIGITS / 2), 16);
  const low = Number.parseInt(hash.slice(-KEY_DIGITS / 2), 16);
  return residencies
    .map(({ number }) => holdings.find(number, high, low))
    .filter((slot) => slot !== 0 && holdings.isLive(slot) && (hash.length === KEY_DIGITS || holdings.digestOf(slot) === hash));
}

function searchOne({ holdings }: BlockGraph, { era }: Residency, { prefix, limit }: { readonly prefix: string; readonly limit: number }): Found {
  const slots: number[] = [];
  if (prefix === '') {
    for (const slot of holdings.slotsOf(era)) {
      if (slots.length >= limit) break;
      slots.push(slot);
    }
    return { slots, matching: era.count };
  }
  let matching = 0;
  for (const slot of holdings.slotsOf(era)) {
    if (!keyStartsWith(holdings.highOf(slot), holdings.lowOf(slot), prefix) && holdings.digestOf(slot)?.startsWith(prefix) !== true) continue;
    matching += 1;
    if (slots.length < limit) slots.push(slot);
  }
  return { slots, matching };
}

/** Whether the 16 digits of a key begin with `prefix`; compared as numbers, as millions may be asked. */
function keyStartsWith(high: number, low: number, prefix: string): boolean {
  if (prefix.length > KEY_DIGITS) return false;
  const highPart = Number.parseInt(prefix.slice(0, 8), 16);
  if (prefix.length <= 8) return high >>> (32 - 4 * prefix.length) === highPart;
  return high === highPart && low >>> (64 - 4 * prefix.length) === Number.parseInt(prefix.slice(8), 16);
}

function toView(graph: BlockGraph, slot: number): KvBlockView | undefined {
  const { holdings, nodes } = graph;
  const residency = graph.residencies[holdings.residencyOf(slot)];
  if (residency === undefined) return undefined;
  const node = holdings.nodeOf(slot);
  const parent = parentHash(graph, node, residency.streamNumber);
  const tokens = nodes.tokensOf(node);
  return {
    hash: hashOf(graph, slot),
    stream: residency.stream.id,
    instanceName: residency.stream.instanceName,
    medium: residency.medium,
    ...(residency.groupIdx !== undefined && { groupIdx: residency.groupIdx }),
    ...(parent !== undefined && { parent }),
    // Of a placeholder neither size nor tokens are known.
    ...(nodes.sizeOf(node) > 0 && { blockSize: nodes.sizeOf(node) }),
    ...(tokens !== undefined && { tokens }),
    copies: holdings.copiesOf(slot),
    storedAtUnixMs: holdings.storedAt(slot),
    stores: holdings.storesOf(slot),
  };
}

/** What the stream called the block before; unknown when the index has forgotten that. */
function parentHash(graph: BlockGraph, node: number, streamNumber: number): string | undefined {
  const parent = graph.nodes.parentOf(node);
  if (parent === 0) return undefined;
  for (let slot = graph.nodes.firstHolding(parent); slot !== 0; slot = graph.holdings.nextOfNode(slot)) {
    if (graph.residencies[graph.holdings.residencyOf(slot)]?.streamNumber === streamNumber) return hashOf(graph, slot);
  }
  return undefined;
}

function hashOf({ holdings }: BlockGraph, slot: number): string {
  return holdings.digestOf(slot) ?? keyHex(holdings.highOf(slot), holdings.lowOf(slot));
}
