/**
 * Held blocks below every node, counted over the whole tree in slices, so that a million blocks hold nothing up. The tree is
 * that of one instant: its links are copied in one turn. What comes or goes while the marks are taken counts or not.
 */
import type { BlockGraph } from './block-graph.ts';
import { ROOT } from './node-table.ts';

/** Nodes per slice; about two milliseconds. */
const SLICE = 65_536;

/** One byte per node. */
export type Marks = Uint8Array;

export interface SubtreeCounts {
  /** Marked blocks from a node on, itself included; 0 for nodes made after the count. */
  of(node: number): number;
}

/** In slices. Marks the placed nodes that `accept` takes, by residency: bit `1 << side` of those held by a residency of that side. */
export function* markHeld(graph: BlockGraph, sideOf: (residency: number) => number | undefined): Generator<undefined, Marks> {
  const { nodes, holdings, residencies } = graph;
  const marks = new Uint8Array(nodes.highest + 1);
  const bits = residencies.map((_, number) => {
    const side = sideOf(number);
    return side === undefined ? 0 : 1 << side;
  });
  for (let slot = 1, last = holdings.highest; slot <= last; slot += 1) {
    if (slot % SLICE === 0) yield undefined;
    const bit = bits[holdings.residencyOf(slot)] ?? 0;
    if (bit === 0 || !holdings.isLive(slot)) continue;
    const node = holdings.nodeOf(slot);
    if (nodes.isPlaced(node)) marks[node] = (marks[node] ?? 0) | bit;
  }
  return marks;
}

/**
 * Counts marked nodes below each node. `joins`: whether a child's count is added to its parent's; by default always,
 * else counts are those of the connected part of the tree that a node is the top of.
 */
export function* countBelow(graph: BlockGraph, marks: Marks, joins?: (child: number, parent: number) => boolean): Generator<undefined, SubtreeCounts> {
  const { nodes } = graph;
  // Nodes made since the marks were taken are not in them.
  const last = Math.min(nodes.highest, marks.length - 1);
  const { parents, children: pending, generations } = nodes.links(last);
  const counts = new Uint32Array(last + 1);
  for (let node = 1; node <= last; node += 1) counts[node] = marks[node] === 0 ? 0 : 1;
  const leaves = pending.slice();
  for (let start = 1; start <= last; start += SLICE) {
    yield undefined;
    for (let leaf = start; leaf < Math.min(last + 1, start + SLICE); leaf += 1) {
      if (leaves[leaf] !== 0) continue;
      // Upwards from a leaf until a node that waits for other children.
      for (let node = leaf; ;) {
        const parent = parents[node] ?? ROOT;
        if (parent === ROOT) break;
        if (joins === undefined || joins(node, parent)) counts[parent] = (counts[parent] ?? 0) + (counts[node] ?? 0);
        pending[parent] = (pending[parent] ?? 1) - 1;
        if (pending[parent] !== 0) break;
        node = parent;
      }
    }
  }
  return { of: (node) => (node <= last && nodes.generationOf(node) === generations[node] ? (counts[node] ?? 0) : 0) };
}

/** Runs to the end at once. */
export function finish<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Runs to the end, giving way to the event loop between slices. `spent`: gets the milliseconds that each took. */
export async function finishInSlices<T>(steps: Generator<undefined, T>, spent?: (ms: number) => void): Promise<T> {
  for (;;) {
    const beganMs = performance.now();
    const step = steps.next();
    spent?.(performance.now() - beganMs);
    if (step.done === true) return step.value;
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
