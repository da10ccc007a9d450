/** Answers `cache.residency`: what every stream holds on each medium, in the order it was stored, binned into cells. */
import type { ResidencyMap, ResidencyRow } from '#shared/cache.ts';
import { ROLES } from '#shared/vocabulary.ts';
import type { BlockGraph } from './block-graph.ts';
import { nodeId } from './node-view.ts';
import type { Residency } from './residency.ts';
import type { StreamBlocks } from './stream-blocks.ts';
import type { ViewContext } from './view-context.ts';

const GPU = 'GPU';

/** Blocks per slice; a millisecond or two. */
const SLICE = 8192;

/**
 * Free room is part of the scale, so that half-empty caches look it, as long as at least one block in this many is taken;
 * else a handful of blocks in a vast cache would be one cell.
 */
const MOST_FREE = 20;

/** In slices, by role and name; a row is of the time when it was made. `cells`: at most, per row. */
export function* residencyMap(graph: BlockGraph, streams: readonly StreamBlocks[], how: { readonly cells: number; readonly context: ViewContext }): Generator<undefined, ResidencyMap> {
  const rows: ResidencyRow[] = [];
  for (const stream of streams) {
    if (stream.isClosed) continue;
    for (const place of placesOf(stream)) rows.push(yield* residencyRow(graph, place, how));
  }
  // Sorting keeps the media of a stream in their order.
  rows.sort((a, b) => ROLES.indexOf(a.role) - ROLES.indexOf(b.role) || a.stream.localeCompare(b.stream, 'en', { numeric: true }));
  return { nowUnixMs: how.context.nowUnixMs, rows };
}

/** A medium of a stream. */
interface Place {
  readonly stream: StreamBlocks;
  readonly medium: string;
  readonly residencies: readonly Residency[];
}

/** The GPU, and then the other media that hold blocks. */
function placesOf(stream: StreamBlocks): Place[] {
  const others = stream.counts().filter(({ medium, blocks }) => medium !== GPU && blocks > 0);
  return [GPU, ...others.map(({ medium }) => medium).sort()].map((medium) => ({ stream, medium, residencies: stream.residencies.filter((residency) => residency.medium === medium) }));
}

function* residencyRow(graph: BlockGraph, place: Place, { cells, context }: { readonly cells: number; readonly context: ViewContext }): Generator<undefined, ResidencyRow> {
  const slots = yield* placedSlots(graph, place.residencies);
  const { stream, medium, residencies } = place;
  const { identity } = stream;
  const capacityBlocks = medium === GPU ? context.gpuBlocksOf?.(identity.id) : undefined;
  const drawn = capacityBlocks !== undefined && capacityBlocks <= slots.length * MOST_FREE ? Math.max(slots.length, capacityBlocks) : slots.length;
  const blocksPerCell = Math.max(1, Math.ceil(drawn / cells));
  const cellCount = Math.ceil(slots.length / blocksPerCell);
  const age = new Float64Array(cellCount);
  const reuse = new Float64Array(cellCount);
  const holders = new Uint32Array(cellCount);
  const node: (number | null)[] = Array.from({ length: cellCount }, () => null);
  const counted = new Uint32Array(cellCount);
  for (const [index, slot] of slots.entries()) {
    if (index % SLICE === SLICE - 1) yield undefined;
    // Between slices events go on; what went meanwhile is left out.
    if (!graph.holdings.isLive(slot) || graph.residencies[graph.holdings.residencyOf(slot)]?.streamNumber !== stream.number) continue;
    const cell = Math.floor(index / blocksPerCell);
    const at = graph.holdings.nodeOf(slot);
    age[cell] = (age[cell] ?? 0) + Math.max(0, context.nowUnixMs - graph.holdings.storedAt(slot)) / 1000;
    reuse[cell] = (reuse[cell] ?? 0) + graph.holdings.storesOf(slot) + graph.holdings.hitsOf(slot) - 1;
    counted[cell] = (counted[cell] ?? 0) + 1;
    const held = countStreams(graph, at);
    if (held <= (holders[cell] ?? 0)) continue;
    holders[cell] = held;
    node[cell] = nodeId(graph, at);
  }
  const kept = Array.from(counted, (_, cell) => cell).filter((cell) => (counted[cell] ?? 0) > 0);
  return {
    stream: identity.id,
    instance: identity.instance,
    instanceName: identity.instanceName,
    role: context.roleOf(identity.instance) ?? 'both',
    medium,
    blocks: residencies.reduce((sum, { era }) => sum + era.count, 0),
    ...(capacityBlocks !== undefined && { capacityBlocks }),
    blocksPerCell,
    ageS: kept.map((cell) => mean(age[cell], counted[cell])),
    reuse: kept.map((cell) => mean(reuse[cell], counted[cell])),
    holders: kept.map((cell) => holders[cell] ?? 0),
    node: kept.map((cell) => node[cell] ?? null),
    unplaced: stream.unplaced(medium),
    confidence: context.confidenceOf([identity.id]),
  };
}

/** In slices: live slots of blocks whose place is known, each residency's in the order of storing. */
function* placedSlots(graph: BlockGraph, residencies: readonly Residency[]): Generator<undefined, Uint32Array> {
  const slots = new Uint32Array(residencies.reduce((sum, { era }) => sum + era.count, 0));
  let count = 0;
  for (const { era } of residencies) {
    const from = count;
    let turn = 0;
    // The era's list is newest first. It is walked by links, so what was stored or went between slices may be missed.
    for (let slot = era.tail; slot !== 0 && count < slots.length; slot = graph.holdings.olderInEra(slot)) {
      turn += 1;
      if (turn % SLICE === 0) {
        yield undefined;
        if (graph.holdings.eraOf(slot) !== era) break;
      }
      if (!graph.nodes.isPlaced(graph.holdings.nodeOf(slot))) continue;
      slots[count] = slot;
      count += 1;
    }
    slots.subarray(from, count).reverse();
  }
  return slots.subarray(0, count);
}

function countStreams(graph: BlockGraph, node: number): number {
  const seen: number[] = [];
  for (let slot = graph.nodes.firstHolding(node); slot !== 0; slot = graph.holdings.nextOfNode(slot)) {
    const stream = graph.residencies[graph.holdings.residencyOf(slot)]?.streamNumber;
    if (stream !== undefined && graph.holdings.isLive(slot) && !seen.includes(stream)) seen.push(stream);
  }
  return seen.length;
}

/** Rounded to hundredths: thousands of them cross a wire. */
function mean(sum = 0, count = 1): number {
  return Math.round((sum / count) * 100) / 100;
}
