/**
 * Answers `cache.storms`: blocks that an engine evicted and had to store again shortly after, so many that the cache is too
 * small for its traffic. Some come back to every full cache, as it evicts the least recently used without knowing what is
 * asked for next; so a storm has a minimum, by cost and by share of the cache.
 */
import type { EvictionStorm, EvictionStorms } from '#shared/cache.ts';
import type { StreamId } from '#shared/ids.ts';
import type { BlockGraph } from './block-graph.ts';
import type { BlockReturn, Returns } from './returns.ts';
import type { StreamBlocks } from './stream-blocks.ts';
import type { SubtreeCounts } from './subtree-counts.ts';
import { TreeLines } from './tree-lines.ts';
import type { ViewContext } from './view-context.ts';

export interface StormQuery {
  /** How far back, ms. */
  readonly windowMs: number;
  /** Evicted and stored again within this time counts, ms. Also the quiet that ends a storm. */
  readonly withinMs: number;
}

const SAMPLES = 10;

/**
 * By cost: at vLLM's usual 16 tokens a block, 256 tokens, which one step of prefill computes beside others (a step takes 2,048
 * at least by default, vllm/config/scheduler.py). By share: a hundredth of the cache, as in one of 10,000 blocks a single
 * conversation that comes back just too late is some tens. The share is of what the stream holds, as few engines tell their size.
 */
const LEAST = { blocks: 16, share: 0.01 };

const MAX_STORMS = 200;

/** Storms of every stream, newest first; how far back they are complete, where returns were let go. */
export function stormsOf(graph: BlockGraph, query: StormQuery, how: StormInput): EvictionStorms {
  const oldest = how.returns.dropped === 0 ? undefined : how.returns.oldestStoredAtUnixMs;
  return { ...storms(graph, query, how), least: LEAST, ...(oldest !== undefined && oldest > how.context.nowUnixMs - query.windowMs && { completeSinceUnixMs: oldest }) };
}

interface StormInput {
  readonly returns: Returns;
  readonly streams: ReadonlyMap<StreamId, StreamBlocks>;
  readonly counts: SubtreeCounts;
  readonly context: ViewContext;
}

function storms(graph: BlockGraph, query: StormQuery, how: StormInput): Pick<EvictionStorms, 'storms' | 'fewBlocks'> {
  const { returns, streams, context } = how;
  const lines = new TreeLines(graph, context, how.counts);
  const found: EvictionStorm[] = [];
  let fewBlocks = 0;
  for (const [stream, entries] of byStream(returns, context.nowUnixMs - query.windowMs, query.withinMs)) {
    const blocks = streams.get(stream);
    if (blocks === undefined) continue;
    const { identity } = blocks;
    const held = blocks.counts().reduce((sum, count) => sum + count.blocks, 0);
    for (const storm of split(entries, query.withinMs)) {
      if (storm.length < Math.max(LEAST.blocks, held * LEAST.share)) {
        fewBlocks += storm.length;
        continue;
      }
      const gaps = storm.map((entry) => entry.storedAtUnixMs - entry.evictedAtUnixMs).sort((a, b) => a - b);
      found.push({
        stream,
        instance: identity.instance,
        instanceName: identity.instanceName,
        fromUnixMs: storm[0]?.storedAtUnixMs ?? 0,
        toUnixMs: storm.at(-1)?.storedAtUnixMs ?? 0,
        blocks: storm.length,
        tokens: storm.reduce((sum, entry) => sum + entry.tokens, 0),
        shortestMs: gaps[0] ?? 0,
        medianMs: gaps[Math.floor((gaps.length - 1) / 2)] ?? 0,
        samples: worst(graph, storm).map((node) => lines.line(node)),
      });
    }
  }
  return { storms: found.sort((a, b) => b.toUnixMs - a.toUnixMs).slice(0, MAX_STORMS), fewBlocks };
}

/** Returns that count, oldest first. */
function byStream(returns: Returns, sinceUnixMs: number, withinMs: number): Map<StreamId, BlockReturn[]> {
  const found = new Map<StreamId, BlockReturn[]>();
  for (const entry of returns.entries()) {
    if (entry.storedAtUnixMs < sinceUnixMs || entry.storedAtUnixMs - entry.evictedAtUnixMs > withinMs) continue;
    const list = found.get(entry.stream);
    if (list === undefined) found.set(entry.stream, [entry]);
    else list.push(entry);
  }
  for (const list of found.values()) list.sort((a, b) => a.storedAtUnixMs - b.storedAtUnixMs);
  return found;
}

function split(entries: readonly BlockReturn[], quietMs: number): BlockReturn[][] {
  const parts: BlockReturn[][] = [];
  for (const entry of entries) {
    const last = parts.at(-1);
    if (last === undefined || entry.storedAtUnixMs - (last.at(-1)?.storedAtUnixMs ?? 0) > quietMs) parts.push([entry]);
    else last.push(entry);
  }
  return parts;
}

/** Nodes that came back most often, as far as they are still known. */
function worst(graph: BlockGraph, storm: readonly BlockReturn[]): number[] {
  const times = new Map<number, number>();
  for (const { node, generation } of storm) if (graph.nodes.isUsed(node) && graph.nodes.generationOf(node) === generation) times.set(node, (times.get(node) ?? 0) + 1);
  return Array.from(times).sort((a, b) => b[1] - a[1]).slice(0, SAMPLES).map(([node]) => node);
}
