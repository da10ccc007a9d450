/** Names of nodes that outlive them: a node's number with its generation, so that a freed node's name means nothing. */
import type { NodeId } from './answers.ts';
import type { BlockGraph } from './block-graph.ts';
import { ROOT } from './node-table.ts';

/** Room for 16 million nodes and 2^29 generations in an exact JS number. */
const NODE_BITS = 2 ** 24;
const GENERATIONS = 2 ** 29;

export function nodeId(graph: BlockGraph, node: number): NodeId {
  return (graph.nodes.generationOf(node) % GENERATIONS) * NODE_BITS + node;
}

/** The node that a name stands for, or `undefined` when it is forgotten. */
export function findNode(graph: BlockGraph, id: NodeId): number | undefined {
  const node = id % NODE_BITS;
  return node !== ROOT && graph.nodes.isUsed(node) && nodeId(graph, node) === id ? node : undefined;
}
