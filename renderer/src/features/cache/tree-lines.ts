/** The prefix tree as the lines on screen: only what is open, in the engine's order. */
import type { TreeNode, TreePage } from '#shared/cache.ts';

/** Key of the top of the tree among the pages; nodes are never negative. */
export const TOP = -1;

export interface LoadedPage {
  readonly page?: TreePage;
  /** Why the newest question failed. */
  readonly error?: string;
}

export type TreeLine =
  | {
    readonly kind: 'node';
    readonly key: string;
    readonly node: TreeNode;
    /** 1-based. */
    readonly level: number;
    readonly isOpen: boolean;
    readonly parent: number;
    /** 1-based place among its siblings, and how many there are, listed or not. */
    readonly place: number;
    readonly siblings: number;
  }
  | { readonly kind: 'note'; readonly key: string; readonly level: number; readonly text: string };

/** Lines from the top down. A page that is asked for or failed says so where its children will be. */
export function treeLines(pages: ReadonlyMap<number, LoadedPage>, open: ReadonlySet<number>): readonly TreeLine[] {
  const lines: TreeLine[] = [];
  // The engine's answers are of different moments: a node that moved must not make a circle.
  const onPath = new Set<number>();
  const visit = (key: number, level: number): void => {
    const loaded = pages.get(key);
    if (loaded?.error !== undefined && loaded.page === undefined) {
      lines.push({ kind: 'note', key: `e${key}`, level, text: loaded.error });
      return;
    }
    if (loaded?.page === undefined) {
      lines.push({ kind: 'note', key: `l${key}`, level, text: 'Asking the engine …' });
      return;
    }
    const { children, omitted } = loaded.page;
    children.forEach((node, index) => {
      if (onPath.has(node.node)) return;
      const isOpen = node.children > 0 && open.has(node.node);
      lines.push({ kind: 'node', key: `${key}/${node.node}`, node, level, isOpen, parent: key, place: index + 1, siblings: children.length + omitted });
      if (!isOpen) return;
      onPath.add(node.node);
      visit(node.node, level + 1);
      onPath.delete(node.node);
    });
    if (omitted > 0) lines.push({ kind: 'note', key: `o${key}`, level, text: `… ${omitted.toLocaleString('en-US')} more, after these in the chosen order` });
  };
  visit(TOP, 1);
  return lines;
}

/** Blocks that the widest bar stands for: the largest line at the top. */
export function widestOf(pages: ReadonlyMap<number, LoadedPage>): number {
  return (pages.get(TOP)?.page?.children ?? []).reduce((most, node) => Math.max(most, wholeOf(node)), 1);
}

/** Blocks of a run and of all below it. */
export function wholeOf(node: Pick<TreeNode, 'runBlocks' | 'blocksBelow'>): number {
  return node.runBlocks + node.blocksBelow;
}

/** What a key does on the line at `index`: another line, a node to open or close, or the block to show. */
export type TreeStep =
  | { readonly do: 'move'; readonly to: number }
  | { readonly do: 'open' | 'close' | 'show'; readonly node: number }
  | undefined;

/** The keys of a tree as WAI-ARIA has them: right opens, then enters; left closes, then goes to the parent. */
export function treeStep(lines: readonly TreeLine[], index: number, key: string): TreeStep {
  const line = lines[index];
  const nodeAt = (from: number, direction: 1 | -1): number | undefined => {
    for (let at = from; at >= 0 && at < lines.length; at += direction) if (lines[at]?.kind === 'node') return at;
    return undefined;
  };
  const moveTo = (to: number | undefined): TreeStep => (to === undefined || to === index ? undefined : { do: 'move', to });
  switch (key) {
    case 'ArrowDown':
      return moveTo(nodeAt(index + 1, 1));
    case 'ArrowUp':
      return moveTo(nodeAt(index - 1, -1));
    case 'Home':
      return moveTo(nodeAt(0, 1));
    case 'End':
      return moveTo(nodeAt(lines.length - 1, -1));
    case 'ArrowRight':
      if (line?.kind !== 'node' || line.node.children === 0) return undefined;
      return line.isOpen ? moveTo(nodeAt(index + 1, 1)) : { do: 'open', node: line.node.node };
    case 'ArrowLeft': {
      if (line?.kind !== 'node') return undefined;
      if (line.isOpen) return { do: 'close', node: line.node.node };
      const parent = lines.findIndex((one) => one.kind === 'node' && one.node.node === line.parent);
      return parent === -1 ? undefined : moveTo(parent);
    }
    case 'Enter':
    case ' ':
      return line?.kind === 'node' ? { do: 'show', node: line.node.node } : undefined;
    default:
      return undefined;
  }
}
