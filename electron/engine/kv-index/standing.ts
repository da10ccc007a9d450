/**
 * Whether a stream held a block at a time, from the last two intervals that each holding remembers. What lies further
 * back, or fell into a gap, is answered with "unknown".
 */
import type { Displacer } from './answers.ts';
import { keyHex } from '../kv-events/block-hashes.ts';
import type { BlockGraph } from './block-graph.ts';
import { HeldGroups } from './held-groups.ts';
import type { EndReason } from './holding-columns.ts';
import { nodeId } from './node-view.ts';
import { isNeeded } from './residency.ts';
import type { StreamBlocks } from './stream-blocks.ts';

/** Now, instead of a time. */
export const NOW = Number.POSITIVE_INFINITY;

export type Standing =
  | { readonly kind: 'held'; readonly slot: number; readonly media: readonly string[] }
  /** It was, and went before the time asked for. */
  | { readonly kind: 'ended'; readonly slot: number; readonly atUnixMs: number; readonly reason: EndReason; readonly isLast: boolean }
  /** Older than what is remembered. */
  | { readonly kind: 'forgotten' }
  | { readonly kind: 'never' };

const NEVER: Standing = { kind: 'never' };
const FORGOTTEN: Standing = { kind: 'forgotten' };

/** How a stream stood to a node at a time (`NOW` for now). Groups that serve no prefixes do not count; of several that do, see held-groups.ts. */
export function standingOf(graph: BlockGraph, node: number, stream: StreamBlocks, atUnixMs: number): Standing {
  const media: string[] = [];
  const groups = new HeldGroups(stream, graph.nodes.sizeOf(node));
  let heldSlot = 0;
  let best: Standing = NEVER;
  for (let slot = graph.nodes.firstHolding(node); slot !== 0; slot = graph.holdings.nextOfNode(slot)) {
    const residency = graph.residencies[graph.holdings.residencyOf(slot)];
    if (residency === undefined || residency.streamNumber !== stream.number || !residency.isPrefix) continue;
    const isOfGroups = groups.needed > 0 && residency.medium === 'GPU';
    if (isOfGroups && !isNeeded(residency, stream.epoch)) continue;
    const standing = slotStanding(graph, slot, atUnixMs);
    if (standing.kind !== 'held') {
      best = laterOf(best, standing);
      continue;
    }
    if (isOfGroups && !groups.add(residency, node)) continue;
    heldSlot = slot;
    if (!media.includes(residency.medium)) media.push(residency.medium);
  }
  return heldSlot === 0 ? best : { kind: 'held', slot: heldSlot, media };
}

/** Puts the numbers of streams that held a node at a time into `into`, once for each residency of theirs. */
export function holdersOf(graph: BlockGraph, node: number, { atUnixMs, into }: { readonly atUnixMs: number; readonly into: number[] }): void {
  into.length = 0;
  for (let slot = graph.nodes.firstHolding(node); slot !== 0; slot = graph.holdings.nextOfNode(slot)) {
    const residency = graph.residencies[graph.holdings.residencyOf(slot)];
    if (residency !== undefined && isHeldAt(graph, slot, atUnixMs)) into.push(residency.streamNumber);
  }
}

/** Whether a holding's block was resident at a time, as far as is remembered. */
export function isHeldAt(graph: BlockGraph, slot: number, atUnixMs: number): boolean {
  return atUnixMs === NOW ? graph.holdings.isLive(slot) : graph.holdings.wasHeldAt(slot, atUnixMs);
}

/**
 * Whether a node was known at a time: somebody, or the stream given, had stored it by then, whether or not it was still
 * there. A node whose own history is forgotten counts as known, as it is there for the sake of what follows it.
 */
export function wasKnownAt(graph: BlockGraph, node: number, { atUnixMs, stream }: { readonly atUnixMs: number; readonly stream?: number }): boolean {
  const { nodes, holdings, residencies } = graph;
  let isRemembered = false;
  for (let slot = nodes.firstHolding(node); slot !== 0; slot = holdings.nextOfNode(slot)) {
    if (!holdings.hasHistory(slot)) continue;
    isRemembered = true;
    if (stream !== undefined && residencies[holdings.residencyOf(slot)]?.streamNumber !== stream) continue;
    if (atUnixMs === NOW || holdings.wasStoredBy(slot, atUnixMs)) return true;
  }
  return stream === undefined && !isRemembered;
}

/** What displaced the block of a holding at the end of its last interval, or of the one before. */
export function displacerOf(graph: BlockGraph, slot: number, interval: 'last' | 'previous' = 'last'): Displacer | undefined {
  const words = graph.holdings.displacerOf(slot, interval);
  const residency = graph.residencies[graph.holdings.residencyOf(slot)];
  if (words === undefined || residency === undefined) return undefined;
  const node = graph.holdings.nodeOfHash(residency.streamNumber, words[0], words[1]);
  return { hash: keyHex(words[0], words[1]), ...(node !== 0 && { node: nodeId(graph, node) }) };
}

function slotStanding(graph: BlockGraph, slot: number, atUnixMs: number): Standing {
  const { holdings } = graph;
  const intervals = holdings.intervals(slot);
  for (const [index, { fromUnixMs, toUnixMs, reason }] of intervals.entries()) {
    if (fromUnixMs > atUnixMs) continue;
    if (toUnixMs === undefined || toUnixMs > atUnixMs) return { kind: 'held', slot, media: [] };
    return { kind: 'ended', slot, atUnixMs: toUnixMs, reason: reason ?? 'removed', isLast: index === 0 };
  }
  // Stored later only; before the intervals remembered there were others.
  return holdings.returnsOf(slot) >= 2 ? FORGOTTEN : NEVER;
}

function laterOf(a: Standing, b: Standing): Standing {
  if (a.kind === 'ended' && b.kind === 'ended') return b.atUnixMs > a.atUnixMs ? b : a;
  if (a.kind === 'ended' || b.kind === 'never') return a;
  return b;
}
