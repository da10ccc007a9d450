import { describe, expect, it } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import type { Role } from '#shared/vocabulary.ts';
import { edgeWidth, layoutTopology, NODE_HEIGHT, NODE_WIDTH, routeEdges } from '../../../renderer/src/features/overview/topology-layout.ts';
import { sampleInstance } from '../fixtures/sample-state.ts';

const fleet = (counts: Partial<Record<Role, number>>): ReturnType<typeof sampleInstance>[] =>
  (Object.entries(counts) as [Role, number][]).flatMap(([role, count]) =>
    Array.from({ length: count }, (_, index) => sampleInstance({ name: `${role}${index}`, role })),
  );

describe('layoutTopology', () => {
  it('puts roles in the order of a request and leaves out those nobody serves', () => {
    const { nodes } = layoutTopology(fleet({ decode: 1, prefill: 1 }), [], 1000);
    expect([...nodes].sort((a, b) => a.x - b.x).map((node) => node.id)).toEqual(['clients', 'proxy', 'prefill0', 'decode0']);
    expect(nodes.at(-1)?.x).toBe(1000 - NODE_WIDTH);
  });

  it('collapses a role beyond eight instances and sums its edges', () => {
    const instances = fleet({ prefill: 34, decode: 8 });
    const edges = [1, 2, 3].map((n) => ({ from: 'proxy' as const, to: `prefill${n}` as InstanceId, requestsPerSecond: n }));
    const { nodes, edges: merged } = layoutTopology(instances, edges, 1000);
    expect(nodes.filter((node) => node.kind === 'group').map((node) => [node.id, node.instances.length])).toEqual([['role:prefill', 34]]);
    expect(nodes.filter((node) => node.kind === 'instance')).toHaveLength(8);
    expect(merged.map((edge) => [edge.from.id, edge.to.id, edge.requestsPerSecond])).toEqual([['proxy', 'role:prefill', 6]]);
  });

  it('keeps every box inside the height and apart from its neighbours', () => {
    const { nodes, height } = layoutTopology(fleet({ prefill: 8, decode: 3 }), [], 900);
    for (const node of nodes) {
      expect(node.y).toBeGreaterThanOrEqual(0);
      expect(node.y + NODE_HEIGHT).toBeLessThanOrEqual(height);
    }
    const ys = nodes.filter((node) => node.role === 'prefill').map((node) => node.y);
    const steps = ys.slice(1).map((y, index) => y - (ys[index] ?? 0));
    expect(Math.min(...steps)).toBeGreaterThan(NODE_HEIGHT);
  });

  it('skips edges of instances that left', () => {
    const { edges } = layoutTopology(fleet({ prefill: 1 }), [{ from: 'proxy', to: 'gone' as InstanceId, requestsPerSecond: 1 }], 900);
    expect(edges).toEqual([]);
  });

  it('spreads the lines of one box so that none hides another', () => {
    const edges = ['decode0', 'decode1', 'decode2'].map((to) => ({ from: 'prefill0' as InstanceId, to: to as InstanceId, requestsPerSecond: 1 }));
    const layout = layoutTopology(fleet({ prefill: 1, decode: 3 }), edges, 900);
    const starts = routeEdges(layout.edges).map((edge) => edge.path.split('C')[0]);
    expect(new Set(starts).size).toBe(3);
  });

  it('draws the busiest edge widest and an idle one as a hairline', () => {
    expect(edgeWidth(100, 100)).toBe(6);
    expect(edgeWidth(25, 100)).toBe(3.5);
    expect(edgeWidth(0, 100)).toBe(1);
    expect(edgeWidth(0, 0)).toBe(1);
  });
});
