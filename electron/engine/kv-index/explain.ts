/**
 * Why a prompt hit or missed on one stream: block after block down the tree, as it stood at a time. Every verdict rests
 * on what was seen: what fell into a gap, or was forgotten for lack of room, is answered with "unknown".
 *
 * Blocks count as vLLM's prefix cache counts them (vllm/v1/core/kv_cache_manager.py, get_computed_blocks): from the first
 * on, whole ones only, and never the whole prompt, as at least one token is computed. For hybrid models this looks at
 * groups whose hashes pair with tokens only, so the engine may have hit less.
 */
import type { StreamId } from '#shared/ids.ts';
import type { BlockVerdict, Divergence, Explanation, ExplainRange, KeyPart, LostRange } from './answers.ts';
import type { BlockGraph } from './block-graph.ts';
import { nearestChild, sameAfter } from './divergence.ts';
import { ROOT } from './node-table.ts';
import { nodeId } from './node-view.ts';
import { blockSizeOf } from './prefix-query.ts';
import { Prompt, type PromptKeys } from './prompt.ts';
import type { Residency } from './residency.ts';
import { displacerOf, holdersOf, NOW, standingOf, wasKnownAt, type Standing } from './standing.ts';
import type { StreamBlocks } from './stream-blocks.ts';

export interface ExplainOptions extends PromptKeys {
  /** When the request was scheduled. Default: now. */
  readonly atUnixMs?: number | undefined;
  /** Default: the stream's own. */
  readonly blockSize?: number | undefined;
}

const MAX_RANGES = 256;
const MAX_OTHER_KEYS = 32;
const KEY_PARTS: readonly KeyPart[] = ['lora', 'salt', 'media', 'embeds', 'other'];

export function explain(graph: BlockGraph, stream: StreamBlocks, input: { readonly tokens: Uint32Array; readonly options: ExplainOptions; readonly nameOf: (stream: number) => StreamId | undefined }): Explanation {
  return new Explainer(graph, stream, input).run();
}

class Explainer {
  readonly #graph: BlockGraph;
  readonly #stream: StreamBlocks;
  readonly #prompt: Prompt;
  readonly #at: number;
  readonly #nameOf: (stream: number) => StreamId | undefined;
  readonly #verdicts: BlockVerdict[] = [];
  /** The stream's blocks that serve prefixes, on the GPU rather than elsewhere. */
  readonly #residency: Residency | undefined;

  constructor(graph: BlockGraph, stream: StreamBlocks, input: { readonly tokens: Uint32Array; readonly options: ExplainOptions; readonly nameOf: (stream: number) => StreamId | undefined }) {
    const size = input.options.blockSize ?? blockSizeOf(stream);
    this.#graph = graph;
    this.#stream = stream;
    this.#at = input.options.atUnixMs ?? NOW;
    this.#nameOf = input.nameOf;
    this.#prompt = new Prompt(input.tokens, size, { keys: input.options, nodes: graph.nodes, extras: graph.extras });
    const serving = stream.residencies.filter((residency) => residency.isPrefix);
    this.#residency = serving.find((residency) => residency.medium === 'GPU') ?? serving[0];
  }

  run(): Explanation {
    const { tokens, blocks, blockSize } = this.#prompt;
    let hitBlocks = 0;
    let parent = ROOT;
    for (let index = 0; index < blocks; index += 1) {
      const node = this.#prompt.childOf(parent, index);
      if (node === 0 || !this.#wasKnown(node)) {
        const verdict = this.#leaves(parent, index);
        while (this.#verdicts.length < blocks) this.#verdicts.push(verdict);
        break;
      }
      const verdict = this.#known(node, hitBlocks === index);
      if (verdict.kind === 'hit') hitBlocks = index + 1;
      this.#verdicts.push(verdict);
      parent = node;
    }
    // A prompt that ends with a block computes that one whatever is resident.
    if (blocks > 0 && blocks * blockSize === tokens.length) {
      const last = this.#verdicts[blocks - 1];
      if (last?.kind === 'hit') {
        this.#verdicts[blocks - 1] = { kind: 'partial_block' };
        hitBlocks -= 1;
      }
    }
    const all = this.#ranges();
    return {
      stream: this.#stream.identity.id,
      ...(this.#at !== NOW && { atUnixMs: this.#at }),
      blockSize,
      tokens: tokens.length,
      hitTokens: hitBlocks * blockSize,
      ranges: all.slice(0, MAX_RANGES),
      cutRanges: Math.max(0, all.length - MAX_RANGES),
    };
  }

  /** A block that somebody stored once. */
  #known(node: number, isReachable: boolean): BlockVerdict {
    const standing = standingOf(this.#graph, node, this.#stream, this.#at);
    switch (standing.kind) {
      case 'held': {
        if (!isReachable) return { kind: 'unreachable', media: standing.media };
        const lost = this.#lostSince(this.#graph.holdings.storedAt(standing.slot));
        return { kind: 'hit', media: standing.media, ...(lost !== undefined && { lost }) };
      }
      case 'ended': return this.#ended(node, standing);
      case 'forgotten': return { kind: 'unknown', reason: 'forgotten', alsoOn: this.#holders(node) };
      case 'never': return this.#absent(node);
    }
    return standing;
  }

  #ended(node: number, standing: Extract<Standing, { kind: 'ended' }>): BlockVerdict {
    const { atUnixMs, reason, slot } = standing;
    const alsoOn = this.#holders(node);
    const lost = this.#lostSince(atUnixMs);
    if (reason === 'detached') return { kind: 'unknown', reason: 'detached', alsoOn };
    if (reason !== 'removed') {
      // Stored again in a gap after the reset, perhaps.
      return lost === undefined ? { kind: 'reset', atUnixMs, reason, alsoOn } : { kind: 'unknown', reason: 'lost', lost, alsoOn };
    }
    const displacedBy = displacerOf(this.#graph, slot, standing.isLast ? 'last' : 'previous');
    return {
      kind: 'evicted', fromUnixMs: atUnixMs, toUnixMs: atUnixMs, alsoOn,
      ...(displacedBy !== undefined && { displacedBy }),
      ...(lost !== undefined && { lost }),
    };
  }

  /** A block that the stream was not seen to store, by the time asked for. */
  #absent(node: number): BlockVerdict {
    const alsoOn = node === 0 ? [] : this.#holders(node);
    const doubt = this.#doubt();
    if (doubt !== undefined) return { ...doubt, alsoOn };
    if (alsoOn.length > 0) return { kind: 'elsewhere', streams: alsoOn };
    const since = this.#residency?.forgottenUntilUnixMs ?? Number.NEGATIVE_INFINITY;
    return { kind: 'never_stored', ...(since > Number.NEGATIVE_INFINITY && { sinceUnixMs: since }) };
  }

  /** From here on nobody stored what the prompt says. */
  #leaves(parent: number, index: number): BlockVerdict {
    const other = this.#otherKey(parent, index);
    if (other !== undefined) return other;
    const wasHere = (node: number): boolean => wasKnownAt(this.#graph, node, { atUnixMs: this.#at, stream: this.#stream.number });
    const near = (accept: (node: number) => boolean): Divergence | undefined => {
      const found = nearestChild(this.#graph, this.#prompt, { parent, index, accept });
      // A first block that shares nothing with any other is no near miss.
      return found?.position === 0 ? undefined : found;
    };
    const here = near(wasHere);
    const nearest = here ?? near((node) => this.#wasKnown(node));
    const absent = this.#absent(0);
    if (absent.kind === 'unknown') return { ...absent, ...(nearest !== undefined && { nearest }) };
    if (here !== undefined) return { kind: 'diverges', divergence: here };
    return absent.kind === 'never_stored' && nearest !== undefined ? { ...absent, nearest } : absent;
  }

  #otherKey(parent: number, index: number): BlockVerdict | undefined {
    const { nodes, extras } = this.#graph;
    const candidates = nodes.findOtherKeys(parent, this.#prompt.probeAt(index), MAX_OTHER_KEYS).filter((node) => this.#wasKnown(node));
    const ranked = candidates.toSorted((a, b) => this.#rank(b) - this.#rank(a));
    const [node] = ranked;
    if (node === undefined) return undefined;
    const expected = this.#prompt.keyOf(index);
    const found = extras.read(nodes.extraOf(node));
    const parts = KEY_PARTS.filter((part) => JSON.stringify(expected[part]) !== JSON.stringify(found[part]));
    return { kind: 'other_key', parts, expected, found, node: nodeId(this.#graph, node), blocks: 1 + sameAfter(this.#prompt, node, index + 1) };
  }

  /** Not yet what was stored later only, such as the blocks that the prompt itself left behind. */
  #wasKnown(node: number): boolean {
    return wasKnownAt(this.#graph, node, { atUnixMs: this.#at });
  }

  /** Among blocks under other keys, those of the stream say most. */
  #rank(node: number): number {
    const standing = standingOf(this.#graph, node, this.#stream, this.#at);
    return standing.kind === 'held' ? 2 : standing.kind === 'ended' ? 1 : 0;
  }

  /** Why a block that was not seen may be there all the same. */
  #doubt(): Pick<Extract<BlockVerdict, { kind: 'unknown' }>, 'kind' | 'reason' | 'lost'> | undefined {
    const residency = this.#residency;
    const lost = this.#lostSince(this.#eraSince());
    if (lost !== undefined) return { kind: 'unknown', reason: 'lost', lost };
    if (this.#stream.isClosed && this.#at === NOW) return { kind: 'unknown', reason: 'detached' };
    if (residency === undefined) return this.#prompt.blockSize === 0 ? { kind: 'unknown', reason: 'no_blocks' } : undefined;
    if (residency.era.unplaced > 0) return { kind: 'unknown', reason: 'unplaced' };
    return residency.evicted > 0 ? { kind: 'unknown', reason: 'forgotten' } : undefined;
  }

  /** When everything that was there before had gone, as far as it concerns the time asked for. */
  #eraSince(): number {
    const since = this.#residency?.eraSinceUnixMs ?? Number.NEGATIVE_INFINITY;
    return since <= this.#at ? since : Number.NEGATIVE_INFINITY;
  }

  #lostSince(sinceUnixMs: number): LostRange | undefined {
    return this.#stream.coverage.between(sinceUnixMs, this.#at);
  }

  #holders(node: number): StreamId[] {
    const names: StreamId[] = [];
    for (const number of holdersOf(this.#graph, node, this.#at)) {
      const name = number === this.#stream.number ? undefined : this.#nameOf(number);
      if (name !== undefined) names.push(name);
    }
    return names.sort();
  }

  #ranges(): ExplainRange[] {
    const { blockSize, tokens, blocks } = this.#prompt;
    const ranges: ExplainRange[] = [];
    const add = (fromBlock: number, toBlock: number, verdict: BlockVerdict): void => {
      ranges.push({ fromBlock, toBlock, fromToken: fromBlock * blockSize, toToken: Math.min(tokens.length, toBlock * blockSize), verdict });
    };
    for (const [index, verdict] of this.#verdicts.entries()) {
      const last = ranges.at(-1);
      const joined = last === undefined ? undefined : join(last.verdict, verdict);
      if (last === undefined || joined === undefined) add(index, index + 1, verdict);
      else ranges[ranges.length - 1] = { ...last, toBlock: index + 1, toToken: (index + 1) * blockSize, verdict: joined };
    }
    if (tokens.length === 0 || blocks * blockSize === tokens.length) return ranges;
    if (blockSize > 0) add(blocks, blocks + 1, { kind: 'partial_block' });
    else ranges.push({ fromBlock: 0, toBlock: 0, fromToken: 0, toToken: tokens.length, verdict: { kind: 'unknown', reason: 'no_blocks', alsoOn: [] } });
    return ranges;
  }
}

/** One verdict for two neighbouring blocks, or `undefined` when they differ in kind or evidence. */
function join(a: BlockVerdict, b: BlockVerdict): BlockVerdict | undefined {
  if (a === b) return a;
  if (a.kind === 'evicted' && b.kind === 'evicted') {
    const isSame = JSON.stringify([a.alsoOn, a.lost]) === JSON.stringify([b.alsoOn, b.lost]);
    if (!isSame) return undefined;
    // The block evicted first says best what began it.
    const first = b.fromUnixMs < a.fromUnixMs ? b : a;
    return { ...first, fromUnixMs: Math.min(a.fromUnixMs, b.fromUnixMs), toUnixMs: Math.max(a.toUnixMs, b.toUnixMs) };
  }
  return a.kind === b.kind && JSON.stringify(a) === JSON.stringify(b) ? a : undefined;
}
