import { fc } from '../../support/properties.ts';
import { expect, test } from 'vitest';
import { LinkedSet, type LinkedNode } from '#engine/proxy/linked-set.ts';

interface Node extends LinkedNode {
  readonly id: number;
}

test('behaves as a Set does, whatever comes and goes', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 7 })), (toggles) => {
      const nodes = Array.from({ length: 8 }, (_, id): Node => ({ id, links: undefined }));
      const set = new LinkedSet<Node>();
      const model = new Set<Node>();
      for (const toggle of toggles) {
        const node = nodes[toggle];
        if (node === undefined) continue;
        const isMember = model.delete(node);
        expect(set.delete(node)).toBe(isMember);
        if (!isMember) {
          set.add(node);
          model.add(node);
        }
        expect(set.toArray().map(({ id }) => id)).toEqual([...model].map(({ id }) => id));
        expect(set.first?.id).toBe([...model][0]?.id);
        expect(set.size).toBe(model.size);
      }
    }),
  );
});
