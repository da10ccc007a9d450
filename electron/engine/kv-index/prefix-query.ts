/** Who holds a prompt's prefix: one walk down the tree for each block size in use, for all streams at once. */
import type { StreamId } from '#shared/ids.ts';
import type { PrefixAnswer, PrefixMatch, PrefixPath } from './answers.ts';
import type { BlockGraph } from './block-graph.ts';
import { nearestChild } from './divergence.ts';
import { HeldGroups } from './held-groups.ts';
import { ROOT } from './node-table.ts';
import { nodeId } from './node-view.ts';
import { Prompt, type PromptKeys } from './prompt.ts';
import { isHeldAt, NOW } from './standing.ts';
import type { StreamBlocks } from './stream-blocks.ts';

export interface PrefixOptions extends PromptKeys {
  /** Only streams and blocks of this size. Default: every size that streams use. */
  readonly blockSize?: number | undefined;
  /** What was resident then, as far as is remembered. Default: now. */
  readonly atUnixMs?: number | undefined;
  /** Only these streams. Default: all. */
  readonly streams?: ReadonlySet<StreamId> | undefined;
  /** Look for where the prompt leaves the tree. Default true; scheduling has no need of it. */
  readonly withDivergence?: boolean | undefined;
}

/** Sizes looked at; engines of one model have one or two. */
const MAX_BLOCK_SIZES = 8;

/** Blocks per slice; over 32 streams that hold them about a third of a millisecond. */
const SLICE = 128;

/** In slices for questions about a time, between which the index may change; about now it is finished at once (`finish`). */
export function* prefixSteps(graph: BlockGraph, streams: readonly StreamBlocks[], input: { readonly tokens: Uint32Array; readonly options: PrefixOptions }): Generator<undefined, PrefixAnswer> {
  const { tokens, options } = input;
  const bySize = new Map<number, StreamBlocks[]>();
  for (const stream of streams) {
    if (stream.isClosed || options.streams?.has(stream.identity.id) === false) continue;
    const size = blockSizeOf(stream);
    if (size === 0 || (options.blockSize !== undefined && size !== options.blockSize)) continue;
    const group = bySize.get(size);
    if (group !== undefined) group.push(stream);
    else if (bySize.size < MAX_BLOCK_SIZES) bySize.set(size, [stream]);
  }
  const paths: PrefixPath[] = [];
  for (const [size, group] of bySize) {
    const prompt = new Prompt(tokens, size, { keys: options, nodes: graph.nodes, extras: graph.extras });
    paths.push(yield* walk(graph, prompt, { streams: group, options }));
  }
  return { tokens: tokens.length, paths: paths.sort((a, b) => (b.matches[0]?.tokens ?? 0) - (a.matches[0]?.tokens ?? 0)) };
}

/** Tokens per block of the stream's groups that serve prefixes; 0 before any was told. */
export function blockSizeOf(stream: StreamBlocks): number {
  let size = 0;
  for (const residency of stream.residencies) {
    if (!residency.isPrefix || residency.blockSize === 0) continue;
    if (residency.medium === 'GPU') return residency.blockSize;
    size = residency.blockSize;
  }
  return size;
}

interface Walker {
  readonly stream: StreamBlocks;
  /** Blocks held in a row from the first on, in any medium. */
  blocks: number;
  gpuBlocks: number;
  readonly groups: HeldGroups;
}

/** A walk whose place was forgotten between two slices ends there: what follows was forgotten with it. */
function* walk(graph: BlockGraph, prompt: Prompt, { streams, options }: { readonly streams: readonly StreamBlocks[]; readonly options: PrefixOptions }): Generator<undefined, PrefixPath> {
  const { nodes, holdings, residencies } = graph;
  const atUnixMs = options.atUnixMs ?? NOW;
  const walkers: (Walker | undefined)[] = [];
  for (const stream of streams) walkers[stream.number] = { stream, blocks: 0, gpuBlocks: 0, groups: new HeldGroups(stream, prompt.blockSize) };
  let parent = ROOT;
  let known = 0;
  for (; known < prompt.blocks; known += 1) {
    if (known > 0 && known % SLICE === 0) {
      const generation = nodes.generationOf(parent);
      yield undefined;
      if (nodes.generationOf(parent) !== generation) break;
    }
    const node = prompt.childOf(parent, known);
    if (node === 0) break;
    parent = node;
    for (let slot = nodes.firstHolding(node); slot !== 0; slot = holdings.nextOfNode(slot)) {
      const residency = residencies[holdings.residencyOf(slot)];
      const walker = residency === undefined ? undefined : walkers[residency.streamNumber];
      // A stream that lacked a block before cannot use this one.
      if (residency === undefined || walker === undefined || !residency.isPrefix || walker.blocks < known) continue;
      if (!isHeldAt(graph, slot, atUnixMs)) continue;
      if (residency.medium === 'GPU' && !walker.groups.add(residency, known)) continue;
      walker.blocks = known + 1;
      if (residency.medium === 'GPU' && walker.gpuBlocks === known) walker.gpuBlocks = known + 1;
    }
  }
  const matches: PrefixMatch[] = [];
  for (const walker of walkers) if (walker !== undefined) matches.push(toMatch(walker, prompt.blockSize, atUnixMs));
  matches.sort((a, b) => b.blocks - a.blocks || b.gpuBlocks - a.gpuBlocks);
  const divergence = options.withDivergence === false || known === prompt.blocks ? undefined : nearestChild(graph, prompt, { parent, index: known, accept: () => true });
  return {
    blockSize: prompt.blockSize,
    blocks: prompt.blocks,
    known,
    ...(known > 0 && { node: nodeId(graph, parent) }),
    matches,
    // A first block that shares nothing with any other says nothing.
    ...(divergence !== undefined && divergence.position > 0 && { divergence }),
  };
}

function toMatch({ stream, blocks, gpuBlocks }: Walker, blockSize: number, atUnixMs: number): PrefixMatch {
  const since = stream.residencies.reduce((least, residency) => Math.min(least, residency.eraSinceUnixMs), Number.POSITIVE_INFINITY);
  const lost = stream.coverage.between(since, atUnixMs);
  return { stream: stream.identity.id, blocks, gpuBlocks, tokens: blocks * blockSize, ...(lost !== undefined && { lost }) };
}
