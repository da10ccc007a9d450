import { describe, expect, it } from 'vitest';
import { TOP, treeLines, treeStep, widestOf, type LoadedPage } from '../../../renderer/src/features/cache/tree-lines.ts';
import { readTreeQuery } from '../../../renderer/src/features/cache/tree-search.ts';
import { sampleNode, samplePage } from './sample-cache.ts';

const page = (nodes: readonly number[], omitted = 0): LoadedPage => ({ page: samplePage(undefined, { children: nodes.map((node) => sampleNode(node, { children: node < 10 ? 2 : 0 })), omitted }) });
const PAGES = new Map<number, LoadedPage>([[TOP, page([1, 2], 3)], [1, page([11, 12])]]);
const brief = (lines: ReturnType<typeof treeLines>): readonly string[] => lines.map((line) => `${line.level}:${line.kind === 'node' ? `${line.node.node}${line.isOpen ? '-' : ''}` : line.text}`);

describe('tree lines', () => {
  it('lists what is open, and says what is left out', () => {
    expect(brief(treeLines(PAGES, new Set()))).toEqual(['1:1', '1:2', '1:… 3 more, after these in the chosen order']);
    expect(brief(treeLines(PAGES, new Set([1])))).toEqual(['1:1-', '2:11', '2:12', '1:2', '1:… 3 more, after these in the chosen order']);
    const [first] = treeLines(PAGES, new Set());
    expect(first).toMatchObject({ place: 1, siblings: 5 });
  });

  it('says in place what is asked for and what failed', () => {
    expect(brief(treeLines(new Map(), new Set()))).toEqual(['1:Asking the engine …']);
    expect(brief(treeLines(new Map([...PAGES, [2, { error: 'no such block' }]]), new Set([2])))).toContain('2:no such block');
    // An error after a page: the page stays, the section says it is old.
    expect(brief(treeLines(new Map([[TOP, { ...page([1]), error: 'gone' }]]), new Set()))).toEqual(['1:1']);
  });

  it('does not go in circles when answers of different moments do', () => {
    const pages = new Map<number, LoadedPage>([[TOP, page([1])], [1, page([2])], [2, page([1])]]);
    expect(brief(treeLines(pages, new Set([1, 2])))).toEqual(['1:1-', '2:2-']);
  });

  it('measures bars by the largest line at the top', () => {
    const whole = (node: number): number => sampleNode(node).runBlocks + sampleNode(node).blocksBelow;
    expect(widestOf(PAGES)).toBe(Math.max(whole(1), whole(2)));
    expect(widestOf(new Map())).toBe(1);
  });
});

describe('tree keys', () => {
  const lines = treeLines(PAGES, new Set([1]));
  it('moves over lines that are nodes', () => {
    expect(treeStep(lines, 0, 'ArrowDown')).toEqual({ do: 'move', to: 1 });
    expect(treeStep(lines, 3, 'ArrowDown')).toBeUndefined();
    expect(treeStep(lines, 3, 'ArrowUp')).toEqual({ do: 'move', to: 2 });
    expect(treeStep(lines, 3, 'Home')).toEqual({ do: 'move', to: 0 });
    expect(treeStep(lines, 0, 'End')).toEqual({ do: 'move', to: 3 });
  });

  it('opens, enters, closes and goes back to the parent', () => {
    expect(treeStep(lines, 3, 'ArrowRight')).toEqual({ do: 'open', node: 2 });
    expect(treeStep(lines, 0, 'ArrowRight')).toEqual({ do: 'move', to: 1 });
    expect(treeStep(lines, 1, 'ArrowRight')).toBeUndefined();
    expect(treeStep(lines, 2, 'ArrowLeft')).toEqual({ do: 'move', to: 0 });
    expect(treeStep(lines, 0, 'ArrowLeft')).toEqual({ do: 'close', node: 1 });
    expect(treeStep(lines, 3, 'ArrowLeft')).toBeUndefined();
    expect(treeStep(lines, 2, 'Enter')).toEqual({ do: 'show', node: 12 });
    expect(treeStep(lines, 2, 'x')).toBeUndefined();
  });
});

describe('readTreeQuery', () => {
  it('tells token ids from text', () => {
    expect(readTreeQuery('151644, 8948 198')?.input).toEqual({ tokens: [151_644, 8948, 198], limit: 100 });
    expect(readTreeQuery('[1,2]')?.input).toEqual({ tokens: [1, 2], limit: 100 });
    expect(readTreeQuery('tokens:7')).toEqual({ input: { tokens: [7], limit: 100 }, reading: '1 token id' });
    expect(readTreeQuery('2026')?.input).toEqual({ text: '2026', limit: 100 });
    expect(readTreeQuery('<|im_start|>system⏎You are⇥here')?.input).toEqual({ text: '<|im_start|>system\nYou are\there', limit: 100 });
    expect(readTreeQuery('text:1 2 3')?.input).toEqual({ text: '1 2 3', limit: 100 });
    expect(readTreeQuery('You are')?.reading).toBe('text, made into tokens by an instance');
  });

  it('asks nothing for nothing', () => {
    for (const typed of ['', '  ', 'tokens:', 'text: ']) expect(readTreeQuery(typed)).toBeUndefined();
  });
});
