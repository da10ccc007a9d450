/**
 * The answers of the Cache view, from the index. Counting over the whole tree runs in slices between turns of the event
 * loop, so none of this delays a token; what is counted for one question serves others for a moment.
 */
import type { BlockDetail, CacheDifference, EvictionStorms, ResidencyMap, TreePage, TreeSearch } from '#shared/cache.ts';
import type { InstanceId, StreamId } from '#shared/ids.ts';
import { blockDetail, type BlockQuery } from './block-view.ts';
import { difference, type DifferenceQuery } from './difference-view.ts';
import { innerSearch } from './inner-search.ts';
import type { KvIndex } from './kv-index.ts';
import { residencyMap } from './residency-view.ts';
import { stormsOf, type StormQuery } from './storm-view.ts';
import type { StreamBlocks } from './stream-blocks.ts';
import { finishInSlices, type SubtreeCounts } from './subtree-counts.ts';
import { TreeLines } from './tree-lines.ts';
import { countHeld, searchPrefix, treePage, type TreeQuery } from './tree-view.ts';
import type { ViewContext } from './view-context.ts';

/** Counts older than this are made anew; the page asks about once a second. */
const MAX_AGE_MS = 1500;
/** Tokens in a row that are worth showing when they stand inside prompts; of fewer, all. */
const LEAST_INSIDE = 4;
/** Counts kept, by instance filter. */
const MAX_COUNTS = 4;

export class CacheViews {
  readonly #index: KvIndex;
  readonly #context: () => ViewContext;
  readonly #counts = new Map<InstanceId | undefined, { readonly counts: Promise<SubtreeCounts>; readonly atMs: number }>();

  /** `context`: made anew for every answer. */
  constructor(index: KvIndex, context: () => ViewContext) {
    this.#index = index;
    this.#context = context;
  }

  /** @throws PdscopeError `kv_block_unknown` when the index has forgotten the node. */
  async tree(query: TreeQuery): Promise<TreePage> {
    const counts = await this.#held(query.instance);
    return treePage(this.#index.graph, query, { counts, context: this.#context(), capacity: this.#index.capacity });
  }

  /**
   * By the start of prompts; what does not wholly begin one is looked for anywhere in what is held.
   * @param readings the same text as tokens: at the start of a prompt first, then as it may read elsewhere.
   */
  async search(readings: readonly [Uint32Array, ...Uint32Array[]], limit: number): Promise<TreeSearch> {
    const { graph } = this.#index;
    const counts = await this.#held(undefined);
    const [tokens] = readings;
    const atStart = searchPrefix(graph, { tokens, limit }, { counts, context: this.#context() });
    let best: TreeSearch = atStart;
    for (const inside of atStart.matchedTokens === tokens.length ? [] : readings) {
      const least = Math.max(best.matchedTokens + 1, Math.min(inside.length, LEAST_INSIDE));
      const { nodes, matched } = await finishInSlices(innerSearch(graph, { tokens: inside, least, limit }, counts));
      if (matched === 0) continue;
      const context = this.#context();
      const lines = new TreeLines(graph, context, counts);
      best = { matches: nodes.map((node) => lines.line(node)), matchedTokens: matched, askedTokens: inside.length, isInside: true, confidence: context.confidenceIn() };
    }
    return best;
  }

  async difference(query: DifferenceQuery): Promise<CacheDifference> {
    return await finishInSlices(difference(this.#index.graph, query, this.#context()));
  }

  async storms(query: StormQuery): Promise<EvictionStorms> {
    const counts = await this.#held(undefined);
    return stormsOf(this.#index.graph, query, { returns: this.#index.returns, streams: this.#streams(), counts, context: this.#context() });
  }

  /** @throws PdscopeError `kv_block_unknown`, `kv_block_query`. */
  async block(query: BlockQuery): Promise<BlockDetail> {
    const counts = await this.#held(undefined);
    return blockDetail(this.#index.graph, query, { streams: this.#streams(), counts, context: this.#context() });
  }

  async residency(cells: number): Promise<ResidencyMap> {
    return await finishInSlices(residencyMap(this.#index.graph, this.#index.streams, { cells, context: this.#context() }));
  }

  #streams(): ReadonlyMap<StreamId, StreamBlocks> {
    return new Map(this.#index.streams.map((stream) => [stream.identity.id, stream]));
  }

  async #held(instance: InstanceId | undefined): Promise<SubtreeCounts> {
    const nowMs = performance.now();
    const kept = this.#counts.get(instance);
    if (kept !== undefined && nowMs - kept.atMs < MAX_AGE_MS) return await kept.counts;
    for (const key of this.#counts.keys()) if (this.#counts.size >= MAX_COUNTS) this.#counts.delete(key);
    const counts = finishInSlices(countHeld(this.#index.graph, instance));
    this.#counts.set(instance, { counts, atMs: nowMs });
    return await counts;
  }
}
