/**
 * Finds a run of tokens wherever it stands in what is held, not only at the start of prompts: what a person types is
 * mostly some words of a system prompt, without the template before them. A run may go over the borders of blocks. Walks
 * over all blocks in slices, as the index may hold a million.
 */
import type { BlockGraph } from './block-graph.ts';
import type { SubtreeCounts } from './subtree-counts.ts';

/** Blocks per slice, about two milliseconds; of tokens compared beside, as many as take about as long as a block. */
const SLICE = 16_384;
const TOKENS_PER_BLOCK = 16;
/** Children looked at for the rest of one run, over all its blocks. */
const MAX_CHILDREN = 4096;

export interface InnerMatch {
  /** Where the run begins, those with the most below them first. */
  readonly nodes: readonly number[];
  /** Tokens of it that were found, from its first on. */
  readonly matched: number;
}

interface Found {
  readonly node: number;
  readonly generation: number;
  /** Blocks that count for it. */
  readonly below: number;
}

/** The longest beginning of `tokens`, of `least` tokens at least, and the blocks in which it begins, at most `limit`. */
export function* innerSearch(graph: BlockGraph, { tokens, least, limit }: { readonly tokens: Uint32Array; readonly least: number; readonly limit: number }, counts: SubtreeCounts): Generator<undefined, InnerMatch> {
  const { nodes } = graph;
  const [first] = tokens;
  if (first === undefined) return { nodes: [], matched: 0 };
  let matched = Math.max(1, least);
  let found: Found[] = [];
  let work = 0;
  for (let node = 1, last = nodes.highest; node <= last; node += 1) {
    work += 1;
    if (work >= SLICE) {
      yield undefined;
      work = 0;
    }
    const below = counts.of(node);
    if (below === 0) continue;
    let longest = 0;
    for (let at = nodes.positionOf(node, first, 0); at !== -1; at = nodes.positionOf(node, first, at + 1)) {
      const run = runFrom(graph, node, { at, tokens });
      work += run / TOKENS_PER_BLOCK;
      longest = Math.max(longest, run);
    }
    if (longest < matched) continue;
    if (longest > matched) found = [];
    matched = longest;
    found.push({ node, generation: nodes.generationOf(node), below });
    // A token that is in every block: twice as many as are wanted stay, as some may be given up meanwhile.
    if (found.length > 4 * limit) found = heaviest(found).slice(0, 2 * limit);
  }
  // Blocks that were given up in between are not held any more.
  const kept = heaviest(found.filter(({ node, generation }) => nodes.generationOf(node) === generation)).map(({ node }) => node);
  return { nodes: kept.slice(0, limit), matched: kept.length === 0 ? 0 : matched };
}

function heaviest(found: readonly Found[]): Found[] {
  return found.toSorted((a, b) => b.below - a.below);
}

/** Tokens that stand in a row from a place in a block on, there and in what continues it. */
function runFrom({ nodes }: BlockGraph, node: number, { at, tokens }: { readonly at: number; readonly tokens: Uint32Array }): number {
  let matched = nodes.commonRun(node, { at, tokens, offset: 0 });
  if (matched < nodes.sizeOf(node) - at) return matched;
  let parent = node;
  let left = MAX_CHILDREN;
  while (matched < tokens.length) {
    let best = 0;
    let next = 0;
    for (let child = nodes.firstChild(parent); child !== 0 && left > 0; child = nodes.nextSibling(child), left -= 1) {
      const same = nodes.commonRun(child, { at: 0, tokens, offset: matched });
      if (same > best) [best, next] = [same, child];
    }
    matched += best;
    if (next === 0 || best < nodes.sizeOf(next)) break;
    parent = next;
  }
  return matched;
}
