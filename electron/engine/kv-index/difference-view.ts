/** Answers `cache.difference`: what two groups of instances hold of the same content. */
import type { CacheDifference, DifferencePart, KvBytes } from '#shared/cache.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { BlockGraph } from './block-graph.ts';
import { countHeld } from './tree-view.ts';
import { countBelow, markHeld, type Marks, type SubtreeCounts } from './subtree-counts.ts';
import { TreeLines } from './tree-lines.ts';
import type { ViewContext } from './view-context.ts';

export interface DifferenceQuery {
  readonly left: readonly InstanceId[];
  readonly right: readonly InstanceId[];
}

const LEFT = 1;
const RIGHT = 2;
const BOTH = 3;
const SAMPLES = 20;
/** Nodes per slice; a millisecond or two. */
const SLICE = 32_768;

/** In slices. Blocks whose place in the tree is not known are in no part: they cannot be compared. */
export function* difference(graph: BlockGraph, query: DifferenceQuery, context: ViewContext): Generator<undefined, CacheDifference> {
  const { left, right } = query;
  const sides = graph.residencies.map((residency): number => {
    if (residency === undefined) return 0;
    const { instance } = residency.stream;
    // An instance on both sides is compared with itself on neither.
    return left.includes(instance) ? LEFT : right.includes(instance) ? RIGHT : 0;
  });
  const marks = yield* markHeld(graph, (number) => (sides[number] === LEFT ? 0 : sides[number] === RIGHT ? 1 : undefined));
  const below = yield* countHeld(graph, undefined);
  const regions = yield* countBelow(graph, marks, (child, parent) => marks[child] === marks[parent]);
  const totals = yield* countTotals(graph, marks, { sides, regions });
  const lines = new TreeLines(graph, context, below);
  const [leftBytes, rightBytes] = [agreed(left, context), agreed(right, context)];
  const part = (mark: number): DifferencePart => {
    const { blocks, tokens, copies, leftTokens, rightTokens, tops } = totals[mark] ?? emptyTotals();
    // One copy of what is on both is sized as the right side keeps it.
    const once = mark === LEFT ? leftBytes : rightBytes;
    const copyBytes = (leftTokens === 0 ? 0 : leftTokens * (leftBytes?.bytesPerToken ?? Number.NaN)) + (rightTokens === 0 ? 0 : rightTokens * (rightBytes?.bytesPerToken ?? Number.NaN));
    return {
      blocks,
      tokens,
      copies,
      ...(once !== undefined && { bytes: tokens * once.bytesPerToken }),
      ...(!Number.isNaN(copyBytes) && once !== undefined && { copyBytes }),
      samples: tops.filter(({ node }) => graph.nodes.isUsed(node)).map(({ node }) => lines.line(node)),
    };
  };
  return {
    left,
    right,
    onlyLeft: part(LEFT),
    onlyRight: part(RIGHT),
    both: part(BOTH),
    ...(leftBytes !== undefined && { leftBytes }),
    ...(rightBytes !== undefined && { rightBytes }),
    // Each part says of one side what it holds and of the other what it lacks, so all rest on the streams of both.
    confidence: context.confidenceIn([...left, ...right]),
  };
}

interface Totals {
  blocks: number;
  tokens: number;
  copies: number;
  /** Tokens of all copies on a side. */
  leftTokens: number;
  rightTokens: number;
  /** Tops of the largest connected parts of the tree, the largest first. */
  readonly tops: { readonly node: number; readonly blocks: number }[];
}

function emptyTotals(): Totals {
  return { blocks: 0, tokens: 0, copies: 0, leftTokens: 0, rightTokens: 0, tops: [] };
}

interface CountInput {
  /** By residency. */
  readonly sides: readonly number[];
  readonly regions: SubtreeCounts;
}

/** By mark. */
function* countTotals(graph: BlockGraph, marks: Marks, { sides, regions }: CountInput): Generator<undefined, readonly Totals[]> {
  const totals = [emptyTotals(), emptyTotals(), emptyTotals(), emptyTotals()];
  for (let node = 1; node < marks.length; node += 1) {
    if (node % SLICE === 0) yield undefined;
    const of = totals[marks[node] ?? 0];
    // Between slices events go on; what was forgotten meanwhile is left out.
    if (of === undefined || marks[node] === 0 || !graph.nodes.isUsed(node)) continue;
    const size = graph.nodes.sizeOf(node);
    const [left, right] = countCopies(graph, node, sides);
    of.blocks += 1;
    of.tokens += size;
    of.copies += left + right;
    of.leftTokens += left * size;
    of.rightTokens += right * size;
    if (marks[graph.nodes.parentOf(node)] !== marks[node]) keepLargest(of.tops, node, regions.of(node));
  }
  return totals;
}

function keepLargest(tops: Totals['tops'], node: number, blocks: number): void {
  if (blocks === 0 || (tops.length === SAMPLES && blocks <= (tops.at(-1)?.blocks ?? 0))) return;
  tops.push({ node, blocks });
  tops.sort((a, b) => b.blocks - a.blocks);
  if (tops.length > SAMPLES) tops.pop();
}

/**
 * Physical copies of a block on the left and on the right. Groups of one medium hold parts of the same copy (the size of a
 * token is that of all groups), so of them the one with most copies counts.
 */
function countCopies(graph: BlockGraph, node: number, sides: readonly number[]): readonly [number, number] {
  const most: { readonly stream: number; readonly medium: string; readonly side: number; copies: number }[] = [];
  for (let slot = graph.nodes.firstHolding(node); slot !== 0; slot = graph.holdings.nextOfNode(slot)) {
    const number = graph.holdings.residencyOf(slot);
    const residency = graph.residencies[number];
    const copies = graph.holdings.copiesOf(slot);
    const side = sides[number] ?? 0;
    if (residency === undefined || side === 0 || copies === 0) continue;
    const known = most.find((one) => one.stream === residency.streamNumber && one.medium === residency.medium);
    if (known === undefined) most.push({ stream: residency.streamNumber, medium: residency.medium, side, copies });
    else known.copies = Math.max(known.copies, copies);
  }
  let [left, right] = [0, 0];
  for (const { side, copies } of most) {
    if (side === LEFT) left += copies;
    else right += copies;
  }
  return [left, right];
}

/** Of a side, where all its instances that are sized at all agree; who says so first is named. */
function agreed(instances: readonly InstanceId[], { kvBytesOf }: ViewContext): KvBytes | undefined {
  const said = instances.flatMap((instance) => kvBytesOf?.(instance) ?? []);
  const [first] = said;
  return first !== undefined && said.every(({ bytesPerToken }) => bytesPerToken === first.bytesPerToken) ? first : undefined;
}
