/** Blocks as lines of the prefix tree: a run of blocks without a fork, held by the same streams all along, is one line. */
import type { TreeNode } from '#shared/cache.ts';
import type { BlockGraph } from './block-graph.ts';
import { tokensFrom } from './divergence.ts';
import { nodeId } from './node-view.ts';
import type { SubtreeCounts } from './subtree-counts.ts';
import { holdersNow, keyText, type ViewContext } from './view-context.ts';

const SHOWN_TOKENS = 64;
/** Blocks walked for the lines of one answer; beyond it runs are cut, and go on below. */
const WALK_BUDGET = 50_000;

export class TreeLines {
  readonly #graph: BlockGraph;
  readonly #context: ViewContext;
  readonly #counts: SubtreeCounts;
  #budget = WALK_BUDGET;

  constructor(graph: BlockGraph, context: ViewContext, counts: SubtreeCounts) {
    this.#graph = graph;
    this.#context = context;
    this.#counts = counts;
  }

  /** Children with held blocks, in no order. */
  children(node: number): number[] {
    const { nodes } = this.#graph;
    const found: number[] = [];
    for (let child = nodes.firstChild(node); child !== 0; child = nodes.nextSibling(child)) if (this.#counts.of(child) > 0) found.push(child);
    return found;
  }

  /** The line that begins at `start`, up to `end` where that is given. */
  line(start: number, end?: number): TreeNode {
    const { nodes } = this.#graph;
    const run = this.#run(start, end);
    const key = keyText(this.#graph, start);
    const runBlocks = run.blocks;
    return {
      node: nodeId(this.#graph, start),
      runBlocks,
      blocksBelow: this.children(run.end).reduce((sum, child) => sum + this.#counts.of(child), 0),
      blockSize: nodes.sizeOf(start),
      tokens: tokensFrom(this.#graph, start, Math.min(SHOWN_TOKENS, runBlocks * nodes.sizeOf(start))),
      reuse: Math.max(0, nodes.storesOf(start) - 1),
      lastStoredAtUnixMs: this.lastStoredAt(start),
      holders: holdersNow(this.#graph, start, this.#context),
      children: this.children(run.end).length,
      ...(key !== undefined && { extraKeys: key }),
    };
  }

  /** The last block of the run that begins at `start`. */
  endOf(start: number): number {
    return this.#run(start, undefined).end;
  }

  /** Lines from the root to the run that ends with `node`, root first, at most `limit` of the last. */
  path(node: number, limit: number): TreeNode[] {
    const { nodes } = this.#graph;
    const lines: TreeNode[] = [];
    let end = node;
    for (let at = node; at !== 0 && lines.length < limit; at = nodes.parentOf(at)) {
      const parent = nodes.parentOf(at);
      if (parent !== 0 && this.#continues(parent, at)) continue;
      lines.push(this.line(at, end));
      end = parent;
    }
    return lines.reverse();
  }

  lastStoredAt(node: number): number {
    const { nodes, holdings } = this.#graph;
    let last = 0;
    for (let slot = nodes.firstHolding(node); slot !== 0; slot = holdings.nextOfNode(slot)) last = Math.max(last, holdings.storedAt(slot));
    return last;
  }

  #run(start: number, end: number | undefined): { readonly end: number; readonly blocks: number } {
    const { nodes } = this.#graph;
    let blocks = 1;
    if (end !== undefined) {
      for (let at = end; at !== start && at !== 0; at = nodes.parentOf(at)) blocks += 1;
      return { end, blocks };
    }
    let node = start;
    for (let next = this.#onlyChild(node); next !== 0 && this.#budget > 0 && this.#continues(node, next); next = this.#onlyChild(node)) {
      node = next;
      blocks += 1;
      this.#budget -= 1;
    }
    return { end: node, blocks };
  }

  #onlyChild(node: number): number {
    const { nodes } = this.#graph;
    let only = 0;
    for (let child = nodes.firstChild(node); child !== 0; child = nodes.nextSibling(child)) {
      if (this.#counts.of(child) === 0) continue;
      if (only !== 0) return 0;
      only = child;
    }
    return only;
  }

  #continues(parent: number, child: number): boolean {
    return this.#onlyChild(parent) === child && this.#signature(parent) === this.#signature(child) && this.#graph.nodes.extraOf(parent) === this.#graph.nodes.extraOf(child);
  }

  /** Equal for equal sets of residencies that hold a node now. */
  #signature(node: number): number {
    const { nodes, holdings } = this.#graph;
    let sum = 0;
    for (let slot = nodes.firstHolding(node); slot !== 0; slot = holdings.nextOfNode(slot)) {
      if (!holdings.isLive(slot)) continue;
      const number = holdings.residencyOf(slot) + 1;
      sum = (sum + Math.imul(number ^ (number >>> 7), 0x9e37_79b1)) | 0;
    }
    return sum;
  }
}
