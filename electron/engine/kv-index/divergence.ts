/** Where a prompt leaves the tree: the nearest block known at that place, and what would have matched after it. */
import type { Divergence } from './answers.ts';
import type { BlockGraph } from './block-graph.ts';
import { nodeId } from './node-view.ts';
import type { Prompt } from './prompt.ts';

/** Children looked at for the nearest one; some hundred microseconds. */
const MAX_CHILDREN = 16_384;
/** Tokens shown on each side. */
const SHOWN_TOKENS = 64;

interface Place {
  readonly parent: number;
  readonly index: number;
}

/**
 * The child of `parent` that shares most first tokens with block `index` of the prompt. `accept`: which children count,
 * e.g. those a stream holds. Undefined when there is none.
 */
export function nearestChild(graph: BlockGraph, prompt: Prompt, { accept, ...place }: Place & { readonly accept: (node: number) => boolean }): Divergence | undefined {
  return nearestChildren(graph, prompt, { ...place, accept: [accept] })[0];
}

/** As `nearestChild`, for several conditions in one walk over the children. */
export function nearestChildren(graph: BlockGraph, prompt: Prompt, { parent, index, accept }: Place & { readonly accept: readonly ((node: number) => boolean)[] }): (Divergence | undefined)[] {
  const { nodes } = graph;
  const probe = prompt.probeAt(index);
  const nearest = accept.map(() => ({ node: 0, same: -1 }));
  let left = MAX_CHILDREN;
  for (let child = nodes.firstChild(parent); child !== 0 && left > 0; child = nodes.nextSibling(child), left -= 1) {
    if (nodes.sizeOf(child) !== prompt.blockSize) continue;
    const same = nodes.commonPrefix(child, probe);
    for (const [at, best] of nearest.entries()) {
      if (same <= best.same || accept[at]?.(child) !== true) continue;
      best.node = child;
      best.same = same;
    }
  }
  return nearest.map(({ node, same }) => (node === 0 ? undefined : {
    block: index,
    token: same,
    position: index * prompt.blockSize + same,
    expected: prompt.slice(index, SHOWN_TOKENS),
    found: tokensFrom(graph, node, SHOWN_TOKENS),
    node: nodeId(graph, node),
    sameAfter: sameAfter(prompt, node, index + 1),
    isNearest: nodes.childCount(parent) <= MAX_CHILDREN,
  }));
}

/** Tokens of a node and of what follows it, the newest child at each fork. */
export function tokensFrom(graph: BlockGraph, start: number, limit: number): number[] {
  const tokens: number[] = [];
  for (let node = start; node !== 0 && tokens.length < limit; node = graph.nodes.firstChild(node)) tokens.push(...(graph.nodes.tokensOf(node) ?? []));
  return tokens.slice(0, limit);
}

/** Blocks of the prompt from `index` on that are known in a row under `node`. */
export function sameAfter(prompt: Prompt, node: number, index: number): number {
  let at = node;
  let block = index;
  for (; block < prompt.blocks; block += 1) {
    at = prompt.childOf(at, block);
    if (at === 0) break;
  }
  return block - index;
}
