/** The prompt as a bar of verdicts: where each range is drawn. */
import type { MissRange } from '#shared/cache.ts';

export interface MissSegment {
  readonly range: MissRange;
  readonly x: number;
  readonly width: number;
}

/** Ranges below this would not be seen; wider ones give up the room, px. */
const LEAST_PX = 3;

/** Segments in order of the prompt, together as wide as the plot; widths follow tokens, but none disappears. */
export function missSegments(ranges: readonly MissRange[], widthPx: number): readonly MissSegment[] {
  const inOrder = [...ranges].sort((a, b) => a.fromBlock - b.fromBlock);
  const tokens = inOrder.reduce((sum, range) => sum + Math.max(0, range.tokens), 0);
  if (tokens === 0 || widthPx <= 0) return [];
  const raw = inOrder.map((range) => (Math.max(0, range.tokens) / tokens) * widthPx);
  const lack = raw.reduce((sum, width) => sum + Math.max(0, LEAST_PX - width), 0);
  const spare = raw.reduce((sum, width) => sum + Math.max(0, width - LEAST_PX), 0);
  const keep = spare === 0 ? 1 : Math.max(0, 1 - lack / spare);
  let x = 0;
  return inOrder.map((range, index) => {
    const width = Math.max(LEAST_PX, LEAST_PX + ((raw[index] ?? 0) - LEAST_PX) * keep);
    const segment = { range, x, width };
    x += width;
    return segment;
  });
}

/** Tokens per verdict, most first. */
export function tokensByKind(ranges: readonly MissRange[]): readonly { readonly kind: MissRange['kind']; readonly tokens: number }[] {
  const byKind = new Map<MissRange['kind'], number>();
  for (const { kind, tokens } of ranges) byKind.set(kind, (byKind.get(kind) ?? 0) + tokens);
  return [...byKind].map(([kind, tokens]) => ({ kind, tokens })).sort((a, b) => b.tokens - a.tokens);
}

/** `blocks 3–9`, `block 3`: as the engine numbers them, from 0. */
export function blockSpan({ fromBlock, toBlock }: Pick<MissRange, 'fromBlock' | 'toBlock'>): string {
  return fromBlock === toBlock ? `block ${fromBlock.toLocaleString('en-US')}` : `blocks ${fromBlock.toLocaleString('en-US')}–${toBlock.toLocaleString('en-US')}`;
}
