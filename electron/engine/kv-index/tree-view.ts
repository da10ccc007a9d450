/** Answers `cache.tree` and `cache.search`: what is held now, as a tree of contents over all instances. */
import type { TreePage, TreeSearch } from '#shared/cache.ts';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { BlockGraph } from './block-graph.ts';
import { ROOT } from './node-table.ts';
import { findNode } from './node-view.ts';
import { Probe } from './probe.ts';
import { countBelow, markHeld, type SubtreeCounts } from './subtree-counts.ts';
import { TreeLines } from './tree-lines.ts';
import type { ViewContext } from './view-context.ts';

export interface TreeQuery {
  readonly node?: number | undefined;
  /** Only what this instance holds. */
  readonly instance?: InstanceId | undefined;
  readonly orderBy: 'blocks' | 'reuse' | 'recent';
  readonly limit: number;
}

/** Lines of a path at most; a deeper one is cut at the root's end. */
const MAX_PATH = 64;
/** A key that no node has, so that every node counts as having another. */
const ANY_KEY = 0xffff_ffff;

/** Counts what is held below every node, by everybody or by one instance. */
export function* countHeld(graph: BlockGraph, instance: InstanceId | undefined): Generator<undefined, SubtreeCounts> {
  const marks = yield* markHeld(graph, (number) => {
    const residency = graph.residencies[number];
    return residency === undefined || (instance !== undefined && residency.stream.instance !== instance) ? undefined : 0;
  });
  return yield* countBelow(graph, marks);
}

/** @throws PdscopeError `kv_block_unknown` when the index has forgotten the node. */
export function treePage(graph: BlockGraph, query: TreeQuery, how: { readonly counts: SubtreeCounts; readonly context: ViewContext; readonly capacity: number }): TreePage {
  const { counts, context } = how;
  const lines = new TreeLines(graph, context, counts);
  const start = query.node === undefined || query.node === 0 ? ROOT : needNode(graph, query.node);
  const end = start === ROOT ? ROOT : lines.endOf(start);
  const children = lines.children(end);
  const rank = rankBy(graph, lines, { counts, orderBy: query.orderBy });
  const ranked = children.map((node) => ({ node, rank: rank(node) })).sort((a, b) => b.rank - a.rank).slice(0, query.limit);
  return {
    path: end === ROOT ? [] : lines.path(end, MAX_PATH),
    children: ranked.map(({ node }) => lines.line(node)),
    omitted: children.length - ranked.length,
    totalNodes: graph.nodes.size,
    capacity: how.capacity,
    evicted: graph.evicted,
    confidence: context.confidenceIn(query.instance === undefined ? undefined : [query.instance]),
  };
}

/** Finds the longest beginning of `tokens` that is in the index, under any key; matches are the blocks it ends in. */
export function searchPrefix(graph: BlockGraph, input: { readonly tokens: Uint32Array; readonly limit: number }, how: { readonly counts: SubtreeCounts; readonly context: ViewContext }): TreeSearch {
  const { tokens, limit } = input;
  let best: { readonly nodes: readonly number[]; readonly matched: number } = { nodes: [], matched: 0 };
  for (const size of blockSizes(graph)) {
    const found = deepest(graph, tokens, { size, limit });
    if (found.matched > best.matched) best = found;
  }
  const lines = new TreeLines(graph, how.context, how.counts);
  // Equally long matches: the heaviest first.
  const ranked = best.nodes.toSorted((a, b) => how.counts.of(b) - how.counts.of(a));
  return { matches: ranked.slice(0, limit).map((node) => lines.line(node)), matchedTokens: best.matched, askedTokens: tokens.length, confidence: how.context.confidenceIn() };
}

/** Block sizes in use. */
function blockSizes(graph: BlockGraph): Set<number> {
  return new Set(graph.residencies.flatMap((residency) => (residency === undefined || residency.blockSize === 0 ? [] : [residency.blockSize])));
}

/** Children looked at for the tokens that are left. */
const MAX_CHILDREN = 16_384;

function deepest(graph: BlockGraph, tokens: Uint32Array, { size, limit }: { readonly size: number; readonly limit: number }): { readonly nodes: readonly number[]; readonly matched: number } {
  const probe = new Probe();
  probe.extra = ANY_KEY;
  let front: readonly number[] = [ROOT];
  let block = 0;
  for (; (block + 1) * size <= tokens.length; block += 1) {
    probe.set(tokens, block * size, size);
    const next = front.flatMap((node) => graph.nodes.findOtherKeys(node, probe, limit)).slice(0, limit);
    if (next.length === 0) break;
    front = next;
  }
  // Of what is left, the blocks that begin with most of it.
  const rest = new Uint32Array(size).fill(0xffff_ffff);
  rest.set(tokens.subarray(block * size, Math.min(tokens.length, (block + 1) * size)));
  probe.set(rest, 0, size);
  let ends: number[] = [];
  let common = 0;
  let left = MAX_CHILDREN;
  for (const node of front) {
    for (let child = graph.nodes.firstChild(node); child !== 0 && left > 0; child = graph.nodes.nextSibling(child), left -= 1) {
      if (graph.nodes.sizeOf(child) !== size) continue;
      const same = graph.nodes.commonPrefix(child, probe);
      if (same > common) ends = [];
      common = Math.max(common, same);
      if (same === common && same > 0 && ends.length < limit) ends.push(child);
    }
  }
  if (common > 0) return { nodes: ends, matched: block * size + common };
  return { nodes: block === 0 ? [] : front, matched: block * size };
}

function rankBy(graph: BlockGraph, lines: TreeLines, { counts, orderBy }: { readonly counts: SubtreeCounts; readonly orderBy: TreeQuery['orderBy'] }): (node: number) => number {
  switch (orderBy) {
    case 'blocks': return (node) => counts.of(node);
    case 'reuse': return (node) => graph.nodes.storesOf(node);
    case 'recent': return (node) => lines.lastStoredAt(node);
  }
  return orderBy;
}

/** @throws PdscopeError `kv_block_unknown` when the index has forgotten the node. */
export function needNode(graph: BlockGraph, id: number): number {
  const node = findNode(graph, id);
  if (node === undefined) throw new PdscopeError('kv_block_unknown', `Block ${id} is not in the index any more; it was evicted, and newer blocks took its room.`);
  return node;
}
