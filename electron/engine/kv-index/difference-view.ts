/** Answers `cache.difference`: what two groups of instances hold of the same content. */
import type { CacheDifference, DifferencePart } from '#shared/cache.ts';
import type { InstanceId, StreamId } from '#shared/ids.ts';
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

/** In slices. Blocks whose place in the tree is not known are in no part: they cannot be compared. */
export function* difference(graph: BlockGraph, query: DifferenceQuery, context: ViewContext): Generator<undefined, CacheDifference> {
  const { left, right } = query;
  const marks = markHeld(graph, (number) => {
    const instance = graph.residencies[number]?.stream.instance;
    if (instance === undefined) return undefined;
    // An instance on both sides is compared with itself on neither.
    return left.includes(instance) ? 0 : right.includes(instance) ? 1 : undefined;
  });
  const below = yield* countHeld(graph, undefined);
  const regions = yield* countBelow(graph, marks, (child, parent) => marks[child] === marks[parent]);
  const lines = new TreeLines(graph, context, below);
  const bytesOf = bytesPerToken(query, context);
  const part = (mark: number): DifferencePart => {
    const { blocks, tokens } = totals(graph, marks, mark);
    const bytes = bytesOf(mark);
    return {
      blocks,
      tokens,
      ...(bytes !== undefined && { bytes: tokens * bytes }),
      samples: largest(graph, marks, { mark, regions }).map((node) => lines.line(node)),
    };
  };
  return {
    left,
    right,
    onlyLeft: part(LEFT),
    onlyRight: part(RIGHT),
    both: part(BOTH),
    confidence: context.confidenceOf(streamsOf(graph, new Set([...left, ...right]))),
  };
}

function totals(graph: BlockGraph, marks: Marks, mark: number): { readonly blocks: number; readonly tokens: number } {
  let blocks = 0;
  let tokens = 0;
  for (let node = 1; node < marks.length; node += 1) {
    if (marks[node] !== mark) continue;
    blocks += 1;
    tokens += graph.nodes.sizeOf(node);
  }
  return { blocks, tokens };
}

/** Tops of the largest connected parts of the tree with a mark. */
function largest(graph: BlockGraph, marks: Marks, { mark, regions }: { readonly mark: number; readonly regions: SubtreeCounts }): number[] {
  const best: { readonly node: number; readonly blocks: number }[] = [];
  for (let node = 1; node < marks.length; node += 1) {
    if (marks[node] !== mark || marks[graph.nodes.parentOf(node)] === mark) continue;
    const blocks = regions.of(node);
    if (blocks === 0 || (best.length === SAMPLES && blocks <= (best.at(-1)?.blocks ?? 0))) continue;
    best.push({ node, blocks });
    best.sort((a, b) => b.blocks - a.blocks);
    if (best.length > SAMPLES) best.pop();
  }
  return best.map(({ node }) => node);
}

/** Of a side, where all its instances that said so agree; what is on both counts once, as the right side keeps it. */
function bytesPerToken({ left, right }: DifferenceQuery, { bytesPerTokenOf }: ViewContext): (mark: number) => number | undefined {
  const of = (instances: readonly InstanceId[]): number | undefined => {
    const said = new Set(instances.map((instance) => bytesPerTokenOf?.(instance)).filter((bytes) => bytes !== undefined));
    const [bytes] = said;
    return said.size === 1 ? bytes : undefined;
  };
  return (mark) => of(mark === LEFT ? left : right);
}

function streamsOf(graph: BlockGraph, instances: ReadonlySet<InstanceId>): StreamId[] {
  const ids = graph.residencies.flatMap((residency) => (residency === undefined || residency.isClosed || !instances.has(residency.stream.instance) ? [] : [residency.stream.id]));
  return Array.from(new Set(ids));
}
