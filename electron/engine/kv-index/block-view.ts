/** Answers `cache.block`: one block's tokens, neighbours, holders and history, by its number or by an engine's hash. */
import type { BlockDetail, BlockInterval, BlockName } from '#shared/cache.ts';
import { PdscopeError } from '#shared/errors.ts';
import type { StreamId } from '#shared/ids.ts';
import { keyHex } from '../kv-events/block-hashes.ts';
import type { BlockGraph } from './block-graph.ts';
import { displacerOf } from './standing.ts';
import type { StreamBlocks } from './stream-blocks.ts';
import type { SubtreeCounts } from './subtree-counts.ts';
import { TreeLines } from './tree-lines.ts';
import { needNode } from './tree-view.ts';
import { holdersNow, keyText, type ViewContext } from './view-context.ts';
import { nodeId } from './node-view.ts';

export interface BlockQuery {
  readonly node?: number | undefined;
  /** With `hash`: the stream that the hash is of. Without: any. */
  readonly stream?: StreamId | undefined;
  /** Whole: 16 hex digits, or a longer digest of which the last 16 count. */
  readonly hash?: string | undefined;
}

const MAX_PARENTS = 32;
const MAX_CHILDREN = 50;
const MAX_INTERVALS = 200;
const KEY_DIGITS = 16;

/**
 * @throws PdscopeError `kv_block_unknown` when there is no such block (any more), `kv_block_query` when the question
 * names neither a node nor a whole hash.
 */
export function blockDetail(graph: BlockGraph, query: BlockQuery, how: { readonly streams: ReadonlyMap<StreamId, StreamBlocks>; readonly counts: SubtreeCounts; readonly context: ViewContext }): BlockDetail {
  const node = query.node === undefined ? findByHash(graph, query, how.streams) : needNode(graph, query.node);
  const { nodes } = graph;
  const lines = new TreeLines(graph, how.context, how.counts);
  const parents: number[] = [];
  for (let at = nodes.parentOf(node); at !== 0 && parents.length < MAX_PARENTS; at = nodes.parentOf(at)) parents.push(at);
  const children: number[] = [];
  for (let child = nodes.firstChild(node); child !== 0 && children.length < MAX_CHILDREN; child = nodes.nextSibling(child)) children.push(child);
  const history = historyOf(graph, node);
  const key = keyText(graph, node);
  return {
    node: nodeId(graph, node),
    tokens: nodes.tokensOf(node) ?? [],
    blockSize: nodes.sizeOf(node),
    index: depthOf(graph, node),
    ...(key !== undefined && { extraKeys: key }),
    hashes: hashesOf(graph, node),
    parents: parents.map((parent) => lines.line(parent, parent)),
    children: children.map((child) => lines.line(child)),
    holders: holdersNow(graph, node, how.context),
    history: history.slice(0, MAX_INTERVALS),
    historyOmitted: Math.max(0, history.length - MAX_INTERVALS) + forgottenIntervals(graph, node),
  };
}

function findByHash(graph: BlockGraph, { stream, hash = '' }: BlockQuery, streams: ReadonlyMap<StreamId, StreamBlocks>): number {
  if (hash.length < KEY_DIGITS) throw new PdscopeError('kv_block_query', 'Name a block by its number, or by a whole hash of at least 16 hex digits.');
  const high = Number.parseInt(hash.slice(-KEY_DIGITS, -KEY_DIGITS / 2), 16);
  const low = Number.parseInt(hash.slice(-KEY_DIGITS / 2), 16);
  for (const [id, { number }] of streams) {
    if (stream !== undefined && stream !== id) continue;
    const node = graph.holdings.nodeOfHash(number, high, low);
    if (node !== 0) return node;
  }
  throw new PdscopeError('kv_block_unknown', `No block ${hash.toLowerCase()} is in the index; it was never seen stored, or newer blocks took its room.`);
}

/** Blocks before it in its chain, as far as the chain is known. */
function depthOf(graph: BlockGraph, node: number): number {
  let depth = 0;
  for (let at = graph.nodes.parentOf(node); at !== 0; at = graph.nodes.parentOf(at)) depth += 1;
  return depth;
}

/** The hash of a block in every stream that holds it or is remembered to have held it. */
export function hashesOf(graph: BlockGraph, node: number): readonly BlockName[] {
  const { holdings } = graph;
  const found = new Map<string, BlockName>();
  for (let slot = graph.nodes.firstHolding(node); slot !== 0; slot = holdings.nextOfNode(slot)) {
    const stream = graph.residencies[holdings.residencyOf(slot)]?.stream;
    const hash = holdings.digestOf(slot) ?? keyHex(holdings.highOf(slot), holdings.lowOf(slot));
    if (stream !== undefined) found.set(`${stream.id} ${hash}`, { stream: stream.id, instanceName: stream.instanceName, hash });
  }
  return Array.from(found.values());
}

/** What is remembered of every holding, newest first. */
function historyOf(graph: BlockGraph, node: number): BlockInterval[] {
  const { holdings } = graph;
  const history: BlockInterval[] = [];
  for (let slot = graph.nodes.firstHolding(node); slot !== 0; slot = holdings.nextOfNode(slot)) {
    const residency = graph.residencies[holdings.residencyOf(slot)];
    if (residency === undefined) continue;
    for (const [age, { fromUnixMs, toUnixMs, reason }] of holdings.intervals(slot).entries()) {
      const displacedBy = displacerOf(graph, slot, age === 0 ? 'last' : 'previous')?.node;
      history.push({
        stream: residency.stream.id,
        instanceName: residency.stream.instanceName,
        medium: residency.medium,
        epoch: holdings.epochOf(slot),
        storedAtUnixMs: fromUnixMs,
        ...(toUnixMs !== undefined && { removedAtUnixMs: toUnixMs }),
        ...(reason !== undefined && { how: reason }),
        stores: age === 0 ? holdings.storesOf(slot) : 1,
        ...(displacedBy !== undefined && { displacedBy }),
      });
    }
  }
  return history.sort((a, b) => b.storedAtUnixMs - a.storedAtUnixMs);
}

/** Intervals of holdings that came back more often than is remembered. */
function forgottenIntervals(graph: BlockGraph, node: number): number {
  let forgotten = 0;
  for (let slot = graph.nodes.firstHolding(node); slot !== 0; slot = graph.holdings.nextOfNode(slot)) forgotten += Math.max(0, graph.holdings.returnsOf(slot) - 1);
  return forgotten;
}
