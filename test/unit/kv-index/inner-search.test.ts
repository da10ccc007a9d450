import { describe, expect, it } from 'vitest';
import { innerSearch, type InnerMatch } from '#engine/kv-index/inner-search.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { finish } from '#engine/kv-index/subtree-counts.ts';
import { countHeld } from '#engine/kv-index/tree-view.ts';
import { identity, stored } from './events.ts';

const at = { atUnixMs: 1 };

/** What is found, and in how many slices. */
function search(index: KvIndex, tokens: readonly number[], limit: number): { readonly found: InnerMatch; readonly slices: number } {
  const steps = innerSearch(index.graph, { tokens: Uint32Array.from(tokens), least: 1, limit }, finish(countHeld(index.graph, undefined)));
  for (let slices = 1; ; slices += 1) {
    const step = steps.next();
    if (step.done === true) return { found: step.value, slices };
  }
}

describe('innerSearch', () => {
  it('takes slices by what it compares, not only by blocks: a prompt of one token over and over agrees with itself everywhere', () => {
    const index = new KvIndex({ capacity: 1000 });
    const blocks = 200;
    index.open(identity('p0')).apply(stored(Array.from({ length: blocks }, (_, block) => block + 1), { blockSize: 16, tokens: Array.from({ length: 16 * blocks }, () => 7) }), at);
    const { found, slices } = search(index, Array.from({ length: 1000 }, () => 7), 5);
    expect(found.matched).toBe(1000);
    expect(slices).toBeGreaterThan(5);
    expect(search(index, [8], 5)).toEqual({ found: { nodes: [], matched: 0 }, slices: 1 });
  });

  it('shows the blocks with the most below them, of however many a token stands in', () => {
    const index = new KvIndex({ capacity: 1000 });
    const p0 = index.open(identity('p0'));
    const lengths = Array.from({ length: 60 }, (_, prompt) => 1 + ((prompt * 7) % 10));
    for (const [prompt, length] of lengths.entries()) {
      p0.apply(stored(Array.from({ length }, (_, block) => 100 * (prompt + 1) + block), { tokens: Array.from({ length }, (_, block) => [block === 0 ? 5 : 6, prompt]).flat() }), at);
    }
    const { found } = search(index, [5], 3);
    const longest = [...lengths.entries()].toSorted(([, a], [, b]) => b - a).slice(0, 3).map(([prompt]) => prompt);
    expect(found.nodes.map((node) => index.graph.nodes.tokensOf(node)?.[1])).toEqual(longest);
  });
});
