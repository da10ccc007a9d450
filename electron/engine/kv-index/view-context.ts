/** What the views of the cache need that the index does not know: roles, trust, sizes, and the time. */
import type { Confidence, KvBytes, NodeHolder } from '#shared/cache.ts';
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { Role } from '#shared/vocabulary.ts';
import type { BlockGraph } from './block-graph.ts';
import type { Residency } from './residency.ts';

export interface ViewContext {
  readonly nowUnixMs: number;
  /** Of an instance; those that left the fleet count as `both`. */
  readonly roleOf: (instance: InstanceId) => Role | undefined;
  /** How far an answer resting on these streams can be trusted. */
  readonly confidenceOf: (streams: readonly StreamId[]) => Confidence;
  /** The same of all that these instances hold: one without a stream counts, too. Default: of every stream watched. */
  readonly confidenceIn: (instances?: readonly InstanceId[]) => Confidence;
  /** Bytes of KV cache per token on an instance, when somebody says. */
  readonly kvBytesOf?: (instance: InstanceId) => KvBytes | undefined;
  /** Blocks that a stream's engine has room for on its GPU, when it said. */
  readonly gpuBlocksOf?: (stream: StreamId) => number | undefined;
}

function toHolder({ stream, medium }: Residency, context: ViewContext): NodeHolder {
  return { stream: stream.id, instance: stream.instance, instanceName: stream.instanceName, role: context.roleOf(stream.instance) ?? 'both', medium };
}

/** Who holds a node now. */
export function holdersNow(graph: BlockGraph, node: number, context: ViewContext): NodeHolder[] {
  const holders: NodeHolder[] = [];
  for (let slot = graph.nodes.firstHolding(node); slot !== 0; slot = graph.holdings.nextOfNode(slot)) {
    const residency = graph.residencies[graph.holdings.residencyOf(slot)];
    if (residency === undefined || !graph.holdings.isLive(slot)) continue;
    if (!holders.some((holder) => holder.stream === residency.stream.id && holder.medium === residency.medium)) holders.push(toHolder(residency, context));
  }
  return holders.sort((a, b) => (a.stream < b.stream ? -1 : a.stream > b.stream ? 1 : 0));
}

/** The key of a node as text, e.g. `lora chat-7b, salt tenant-1`; undefined when it has none. */
export function keyText(graph: BlockGraph, node: number): string | undefined {
  const { lora, salt, media, embeds, other } = graph.extras.read(graph.nodes.extraOf(node));
  const parts = [
    ...(lora === undefined ? [] : [`lora ${lora}`]),
    ...(salt === undefined ? [] : [`salt ${salt}`]),
    ...(media ?? []).map(([identifier, offset]) => (offset === undefined ? `media ${identifier}` : `media ${identifier} at ${offset}`)),
    ...(embeds === undefined ? [] : [`embeddings ${embeds}`]),
    ...(other ?? []),
  ];
  return parts.length === 0 ? undefined : parts.join(', ').slice(0, 400);
}
