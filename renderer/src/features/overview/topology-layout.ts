/**
 * Where the topology's boxes and lines go. Pure geometry, in pixels. A role with more than `COLLAPSE_ABOVE` instances
 * becomes one box with counts, so that a hundred instances are as readable as three.
 */
import type { InstanceView } from '#shared/instance.ts';
import type { FlowEdge } from '#shared/state.ts';
import { ROLES, type Role } from '#shared/vocabulary.ts';

export const COLLAPSE_ABOVE = 8;
export const NODE_WIDTH = 122;
export const NODE_HEIGHT = 38;
const GAP = 12;
const ROW = NODE_HEIGHT + GAP;
const PAD_Y = 30;
const PAD_TOP = 8;

export interface TopologyNode {
  /** `clients`, `proxy`, an instance id, or `role:<role>` for a collapsed role. */
  readonly id: string;
  readonly kind: 'clients' | 'proxy' | 'instance' | 'group';
  readonly role?: Role;
  /** The instances in this box: one, or all of a collapsed role. */
  readonly instances: readonly InstanceView[];
  readonly x: number;
  readonly y: number;
}

export interface TopologyEdge {
  readonly from: TopologyNode;
  readonly to: TopologyNode;
  readonly requestsPerSecond: number;
}

export interface TopologyLayout {
  readonly nodes: readonly TopologyNode[];
  readonly edges: readonly TopologyEdge[];
  readonly height: number;
}

/** Lays out columns clients, proxy, then each role that has instances, over `width` pixels. */
export function layoutTopology(instances: readonly InstanceView[], edges: readonly FlowEdge[], width: number): TopologyLayout {
  const columns: (readonly Omit<TopologyNode, 'x' | 'y'>[])[] = [
    [{ id: 'clients', kind: 'clients', instances: [] }],
    [{ id: 'proxy', kind: 'proxy', instances: [] }],
    ...ROLES.map((role) => columnOf(role, instances)).filter((column) => column.length > 0),
  ];
  const rows = Math.max(...columns.map((column) => column.length));
  const encodeRows = columns.find((column) => column[0]?.role === 'encode')?.length ?? 0;
  const height = Math.max(150, rows * ROW - GAP + 2 * PAD_Y, 2 * (encodeRows * ROW + NODE_HEIGHT / 2 + PAD_TOP));
  const stepX = columns.length > 1 ? (width - NODE_WIDTH) / (columns.length - 1) : 0;
  const nodes = columns.flatMap((column, columnIndex) => {
    const columnHeight = column.length * ROW - GAP;
    // Encode stands above the middle: what the proxy sends to prefill passes it by and must not seem to go through it.
    const top = column[0]?.role === 'encode' ? height / 2 - NODE_HEIGHT / 2 - column.length * ROW : (height - columnHeight) / 2;
    return column.map((node, rowIndex): TopologyNode => ({ ...node, x: Math.round(columnIndex * stepX), y: Math.round(top + rowIndex * ROW) }));
  });
  return { nodes, edges: mergeEdges(nodes, edges), height };
}

function columnOf(role: Role, instances: readonly InstanceView[]): readonly Omit<TopologyNode, 'x' | 'y'>[] {
  const members = instances.filter((instance) => instance.role === role);
  if (members.length > COLLAPSE_ABOVE) return [{ id: `role:${role}`, kind: 'group', role, instances: members }];
  return members.map((instance) => ({ id: instance.id, kind: 'instance', role, instances: [instance] }));
}

/** Edges between boxes; those of collapsed instances are summed. Instances that left meanwhile are skipped. */
function mergeEdges(nodes: readonly TopologyNode[], edges: readonly FlowEdge[]): readonly TopologyEdge[] {
  const nodeOf = new Map<string, TopologyNode>();
  for (const node of nodes) {
    if (node.instances.length === 0) nodeOf.set(node.id, node);
    for (const instance of node.instances) nodeOf.set(instance.id, node);
  }
  const merged = new Map<string, TopologyEdge>();
  for (const edge of edges) {
    const from = nodeOf.get(edge.from);
    const to = nodeOf.get(edge.to);
    if (from === undefined || to === undefined || from === to) continue;
    const key = `${from.id} ${to.id}`;
    const requestsPerSecond = edge.requestsPerSecond + (merged.get(key)?.requestsPerSecond ?? 0);
    merged.set(key, { from, to, requestsPerSecond });
  }
  return [...merged.values()];
}

/** Line width in pixels: grows with the square root of the rate, relative to the busiest edge. */
export function edgeWidth(requestsPerSecond: number, maxRequestsPerSecond: number): number {
  if (requestsPerSecond <= 0 || maxRequestsPerSecond <= 0) return 1;
  return 1 + 5 * Math.sqrt(Math.min(1, requestsPerSecond / maxRequestsPerSecond));
}

/** Most pixels between two lines at one box, so that a fan of them stays within its side. */
const FAN_STEP = 7;

/** The lines with a path each: they leave and reach a box spread over its side, in the order of what is at their other end. */
export function routeEdges(edges: readonly TopologyEdge[]): readonly (TopologyEdge & { readonly path: string })[] {
  return edges.map((edge) => {
    const startOffset = fanOffset(edge, edges.filter((one) => one.from === edge.from), (one) => one.to);
    const endOffset = fanOffset(edge, edges.filter((one) => one.to === edge.to), (one) => one.from);
    return { ...edge, path: edgePath(edge.from, edge.to, startOffset, endOffset) };
  });
}

function fanOffset(edge: TopologyEdge, siblings: readonly TopologyEdge[], other: (edge: TopologyEdge) => TopologyNode): number {
  const order = [...siblings].sort((a, b) => other(a).y - other(b).y || other(a).x - other(b).x).indexOf(edge);
  const step = siblings.length > 1 ? Math.min(FAN_STEP, (NODE_HEIGHT - 12) / (siblings.length - 1)) : 0;
  return (order - (siblings.length - 1) / 2) * step;
}

/** A smooth line from the right side of one box to the left side of another, off their middles by so many pixels. */
export function edgePath(from: TopologyNode, to: TopologyNode, startOffset = 0, endOffset = 0): string {
  const startX = from.x + NODE_WIDTH;
  const startY = from.y + NODE_HEIGHT / 2 + startOffset;
  const endY = to.y + NODE_HEIGHT / 2 + endOffset;
  const bend = Math.max(24, Math.abs(to.x - startX) / 2);
  return `M${startX} ${startY}C${startX + bend} ${startY} ${to.x - bend} ${endY} ${to.x} ${endY}`;
}
