/**
 * The block index over all streams: which engine holds which content, what it held, and why a prompt missed. Pure and
 * synchronous: no clock, no I/O, bounded memory (about 300 bytes a block of 16 tokens), bounded answers.
 *
 * A stream tells what it saw through the `StreamBlocks` that `open` gives it. Blocks are matched across streams by
 * tokens, extra keys and parent chain; blocks whose chain is not known are counted and found by hash, never guessed
 * into the tree, and find their place when their chain is told.
 */
import type { BlockName } from '#shared/cache.ts';
import type { StreamId } from '#shared/ids.ts';
import type { ParsedOperationInput, ResidentPage } from '#shared/operations.ts';
import type { BlockBooks } from '../kv-events/block-books.ts';
import type { StreamIdentity } from '../kv-events/kv-row.ts';
import { unknownStream } from '../kv-events/unknown-stream.ts';
import type { Explanation, IndexTotals, NodeId, PrefixAnswer } from './answers.ts';
import { BlockGraph } from './block-graph.ts';
import { listBlocks } from './block-list.ts';
import { hashesOf } from './block-view.ts';
import { explainSteps, type ExplainOptions } from './explain.ts';
import { findNode } from './node-view.ts';
import { prefixSteps, type PrefixOptions } from './prefix-query.ts';
import { Returns } from './returns.ts';
import { StreamBlocks } from './stream-blocks.ts';
import { finish } from './subtree-counts.ts';

export interface KvIndexOptions {
  /** Blocks held, over all streams, each residency by itself; beyond it the one stored longest ago is given up. Default 1,000,000. */
  readonly capacity?: number;
  /** Blocks remembered after they went: as many as are held, but no more than this. Default 250,000. */
  readonly historyCapacity?: number;
  /** Blocks remembered however few are held: minutes of a small cluster's traffic, for about 20 MB. Default 131,072. */
  readonly leastHistory?: number;
  /** For token ids; beyond it old blocks go. Default: of 32 tokens a block, 128 MiB at least. 0: blocks are counted and found by hash only. */
  readonly tokenBytes?: number;
  /** For extra keys. Default 32 MiB. */
  readonly extraBytes?: number;
  /** Evictions that were followed by a store of the same block, kept for `storms`. Default 65,536. */
  readonly returnCapacity?: number;
}

const MIB = 1024 * 1024;
const TOKEN_BYTES_PER_BLOCK = 128;

export class KvIndex implements BlockBooks {
  readonly graph: BlockGraph;
  readonly returns: Returns;
  /** Blocks held at most. */
  readonly capacity: number;

  readonly #byId = new Map<StreamId, StreamBlocks>();
  readonly #byNumber: (StreamBlocks | undefined)[] = [];

  constructor(options: KvIndexOptions = {}) {
    this.capacity = options.capacity ?? 1_000_000;
    this.graph = new BlockGraph({
      capacity: this.capacity,
      historyCapacity: options.historyCapacity ?? 250_000,
      leastHistory: options.leastHistory ?? 131_072,
      tokenBytes: options.tokenBytes ?? Math.max(128 * MIB, this.capacity * TOKEN_BYTES_PER_BLOCK),
      extraBytes: options.extraBytes ?? 32 * MIB,
    });
    this.returns = new Returns(options.returnCapacity ?? 65_536);
  }

  /** Blocks held by all streams. */
  get size(): number {
    return this.graph.holdings.live;
  }

  /** Streams that are open, and closed ones of which history is left. */
  get streams(): readonly StreamBlocks[] {
    return Array.from(this.#byId.values());
  }

  /** Opens a stream. One that was detached gets its history back. */
  open(identity: StreamIdentity): StreamBlocks {
    for (const [id, stream] of this.#byId) {
      if (id === identity.id || !stream.isForgotten()) continue;
      this.#byId.delete(id);
      this.#byNumber[stream.number] = undefined;
    }
    const before = this.#byId.get(identity.id);
    if (before !== undefined) {
      before.reopen();
      return before;
    }
    const stream = new StreamBlocks(identity, this.#byNumber.length, this);
    this.#byId.set(identity.id, stream);
    this.#byNumber.push(stream);
    return stream;
  }

  stream(id: StreamId): StreamBlocks | undefined {
    return this.#byId.get(id);
  }

  /** Who holds a prompt's prefix, and where the prompt leaves what is known. */
  prefix(tokens: Uint32Array, options: PrefixOptions = {}): PrefixAnswer {
    return finish(this.prefixSteps(tokens, options));
  }

  /** As `prefix`, in slices between which the index may change; as of the time asked for, which should not be now. */
  prefixSteps(tokens: Uint32Array, options: PrefixOptions): Generator<undefined, PrefixAnswer> {
    return prefixSteps(this.graph, this.streams, { tokens, options });
  }

  /**
   * Why a prompt hit or missed on a stream.
   * @throws PdscopeError `kv_stream_unknown` when the stream is not known.
   */
  explain(tokens: Uint32Array, stream: StreamId, options: ExplainOptions = {}): Explanation {
    return finish(this.explainSteps(tokens, stream, options));
  }

  /**
   * As `explain`, in slices between which the index may change; as of the time asked for, which should not be now.
   * @throws PdscopeError `kv_stream_unknown` when the stream is not known.
   */
  explainSteps(tokens: Uint32Array, stream: StreamId, options: ExplainOptions = {}): Generator<undefined, Explanation> {
    return explainSteps(this.graph, this.#need(stream), { tokens, options, nameOf: (number) => this.#byNumber[number]?.identity.id });
  }

  /**
   * Blocks held, newest first.
   * @throws PdscopeError `kv_stream_unknown` when the named stream is not attached.
   */
  blocks(input: ParsedOperationInput<'kv.blocks'>): ResidentPage {
    if (input.stream !== undefined && this.#need(input.stream).isClosed) throw unknownStream(input.stream);
    return listBlocks(this.graph, this.streams, input);
  }

  /** The hash of a block in every stream that holds it or is remembered to have held it; none when it is forgotten. */
  namesOf(id: NodeId): readonly BlockName[] {
    const node = findNode(this.graph, id);
    return node === undefined ? [] : hashesOf(this.graph, node);
  }

  totals(): IndexTotals {
    const { nodes, holdings, evicted, forgotten, conflicts } = this.graph;
    return { held: holdings.live, nodes: nodes.size, unplacedNodes: nodes.unplaced, evicted, forgotten, conflicts, tokenBytes: nodes.tokenBytes };
  }

  #need(id: StreamId): StreamBlocks {
    const stream = this.#byId.get(id);
    if (stream === undefined) throw unknownStream(id);
    return stream;
  }
}
