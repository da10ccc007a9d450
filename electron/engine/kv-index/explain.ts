/**
 * Why a prompt hit or missed on one stream: block after block down the tree, as it stood at a time. Every verdict rests
 * on what was seen: what fell into a gap, or was forgotten for lack of room, is answered with "unknown".
 *
 * Done in slices, as a prompt of thousands of blocks over many streams takes some milliseconds. The answer is that of one
 * moment all the same: it is as of the time asked for, of which later events take nothing away, and it begins anew when
 * the block where it stopped was forgotten meanwhile, or batches were found missing.
 *
 * Blocks count as vLLM's prefix cache counts them (vllm/v1/core/kv_cache_manager.py, get_computed_blocks): from the first
 * on, whole ones only, and never the whole prompt, as at least one token is computed. For hybrid models this looks at
 * groups whose hashes pair with tokens only, so the engine may have hit less.
 */
import type { StreamId } from '#shared/ids.ts';
import type { BlockVerdict, Divergence, Explanation, ExplainRange, KeyPart, LostRange } from './answers.ts';
import type { BlockGraph } from './block-graph.ts';
import { nearestChildren } from './divergence.ts';
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
  /** Tokens of the prompt; more than are given when its end is not known. Default: as many as are given. */
  readonly length?: number | undefined;
}

const MAX_RANGES = 256;
const MAX_OTHER_KEYS = 32;
const KEY_PARTS: readonly KeyPart[] = ['lora', 'salt', 'media', 'embeds', 'other'];

export interface ExplainInput {
  readonly tokens: Uint32Array;
  readonly options: ExplainOptions;
  readonly nameOf: (stream: number) => StreamId | undefined;
}

/** Blocks per slice; with 32 streams that hold them about half a millisecond. */
const SLICE = 128;
/** From then on it runs to its end at once. */
const MAX_STARTS = 3;

export function* explainSteps(graph: BlockGraph, stream: StreamBlocks, input: ExplainInput): Generator<undefined, Explanation> {
  for (let start = 1; ; start += 1) {
    const done = yield* new Explainer(graph, stream, input).run(start < MAX_STARTS);
    if (done !== undefined) return done;
  }
}

class Explainer {
  readonly #graph: BlockGraph;
  readonly #stream: StreamBlocks;
  readonly #prompt: Prompt;
  readonly #length: number;
  readonly #at: number;
  readonly #nameOf: (stream: number) => StreamId | undefined;
  readonly #verdicts: BlockVerdict[] = [];
  /** Streams that held the block looked at, and their names; most neighbouring blocks have the same. */
  readonly #holding: number[] = [];
  #lastHolding: readonly number[] = [];
  #lastHolders: StreamId[] = [];
  /** The stream's blocks that serve prefixes, on the GPU rather than elsewhere. */
  readonly #residency: Residency | undefined;

  constructor(graph: BlockGraph, stream: StreamBlocks, input: ExplainInput) {
    const size = input.options.blockSize ?? blockSizeOf(stream);
    this.#graph = graph;
    this.#stream = stream;
    this.#length = input.options.length ?? input.tokens.length;
    this.#at = input.options.atUnixMs ?? NOW;
    this.#nameOf = input.nameOf;
    this.#prompt = new Prompt(input.tokens, size, { keys: input.options, nodes: graph.nodes, extras: graph.extras });
    const serving = stream.residencies.filter((residency) => residency.isPrefix);
    const ofSize = serving.filter((residency) => residency.blockSize === size);
    this.#residency = ofSize.find(({ medium }) => medium === 'GPU') ?? serving.find(({ medium }) => medium === 'GPU') ?? serving[0];
  }

  /** Undefined: what it rested on changed between two slices. */
  *run(isSliced: boolean): Generator<undefined, Explanation | undefined> {
    const { blocks, blockSize } = this.#prompt;
    const { nodes } = this.#graph;
    const lost = this.#stream.coverage.version;
    let hitBlocks = 0;
    let parent = ROOT;
    for (let index = 0; index < blocks; index += 1) {
      if (isSliced && index > 0 && index % SLICE === 0) {
        const generation = nodes.generationOf(parent);
        yield undefined;
        if (nodes.generationOf(parent) !== generation || this.#stream.coverage.version !== lost) return undefined;
      }
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
    if (blocks > 0 && blocks * blockSize === this.#length) {
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
      tokens: this.#length,
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
      kind: 'evicted', fromUnixMs: atUnixMs, toUnixMs: atUnixMs, node: nodeId(this.#graph, node), alsoOn,
      ...(displacedBy !== undefined && { displacedBy }),
      ...(lost !== undefined && { lost }),
    };
  }

  /** A block that the stream was not seen to store, by the time asked for. */
  #absent(node: number): BlockVerdict {
    const alsoOn = node === 0 ? [] : this.#holders(node);
    const doubt = this.#doubt();
    if (doubt !== undefined) return { ...doubt, alsoOn };
    if (alsoOn.length > 0) return { kind: 'elsewhere', streams: alsoOn, node: nodeId(this.#graph, node) };
    const since = this.#residency?.forgottenUntilUnixMs ?? Number.NEGATIVE_INFINITY;
    return { kind: 'never_stored', ...(since > Number.NEGATIVE_INFINITY && { sinceUnixMs: since }) };
  }

  /** From here on nobody stored what the prompt says. */
  #leaves(parent: number, index: number): BlockVerdict {
    const absent = this.#absent(0);
    // What the index had no room for may have been under the prompt's own key.
    const isForgotten = absent.kind === 'unknown' && (absent.reason === 'forgotten' || absent.reason === 'past');
    const other = isForgotten ? undefined : this.#otherKey(parent, index);
    if (other !== undefined) return other;
    const [here, anywhere] = this.#nearest(parent, index);
    const nearest = here ?? anywhere;
    if (absent.kind === 'unknown') return { ...absent, ...(nearest !== undefined && { nearest }) };
    if (here !== undefined) return { kind: 'diverges', divergence: here };
    return absent.kind === 'never_stored' && nearest !== undefined ? { ...absent, nearest } : absent;
  }

  /** The nearest block known at that place: on the stream itself, and on any. */
  #nearest(parent: number, index: number): readonly [Divergence | undefined, Divergence | undefined] {
    const isHere = (node: number): boolean => wasKnownAt(this.#graph, node, { atUnixMs: this.#at, stream: this.#stream.number });
    const found = nearestChildren(this.#graph, this.#prompt, { parent, index, accept: [isHere, (node) => this.#wasKnown(node)] });
    // A first block that shares nothing with any other is no near miss.
    const [here, anywhere] = found.map((divergence) => (divergence?.position === 0 ? undefined : divergence));
    return [here, anywhere];
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
    return { kind: 'other_key', parts, expected, found, node: nodeId(this.#graph, node), blocks: 1 + this.#sameTokensAfter(node, index + 1) };
  }

  /** Blocks with the prompt's tokens in a row under `node`, whatever their keys: every block that a picture touches has its key. */
  #sameTokensAfter(node: number, from: number): number {
    const { nodes } = this.#graph;
    let index = from;
    for (let at = node; index < this.#prompt.blocks; index += 1) {
      const [other] = nodes.findOtherKeys(at, this.#prompt.probeAt(index), 1);
      at = this.#prompt.childOf(at, index) || (other ?? 0);
      if (at === 0) break;
    }
    return index - from;
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
    if (residency.era.unplaced > 0 || residency.unplacedUntilUnixMs > this.#at) return { kind: 'unknown', reason: 'unplaced' };
    // What was given up before everything went (clear, restart) went with it, but for questions about the time before.
    const givenUp = this.#eraSince() === residency.eraSinceUnixMs ? residency.era.givenUp : residency.evicted;
    if (givenUp > 0) return { kind: 'unknown', reason: 'forgotten' };
    return this.#isForgotten() ? { kind: 'unknown', reason: 'past' } : undefined;
  }

  /** Blocks that went after the time asked for are forgotten: one of them may have been held then. */
  #isForgotten(): boolean {
    return this.#stream.forgottenUntilUnixMs > this.#at;
  }

  /** When everything that was there before had gone, as far as it concerns the time asked for. */
  #eraSince(): number {
    const since = this.#residency?.eraSinceUnixMs ?? Number.NEGATIVE_INFINITY;
    return since <= this.#at ? since : Number.NEGATIVE_INFINITY;
  }

  #lostSince(sinceUnixMs: number): LostRange | undefined {
    return this.#stream.coverage.between(sinceUnixMs, this.#at);
  }

  /** Mostly the array of the block before: neighbours have the same holders. */
  #holders(node: number): StreamId[] {
    const numbers = this.#holding;
    holdersOf(this.#graph, node, { atUnixMs: this.#at, into: numbers });
    const last = this.#lastHolding;
    if (numbers.length === last.length && numbers.every((number, at) => number === last[at])) return this.#lastHolders;
    const names = new Set<StreamId>();
    for (const number of numbers) {
      const name = number === this.#stream.number ? undefined : this.#nameOf(number);
      if (name !== undefined) names.add(name);
    }
    const sorted = Array.from(names).sort();
    this.#lastHolding = numbers.slice();
    if (!isSame(sorted, this.#lastHolders)) this.#lastHolders = sorted;
    return this.#lastHolders;
  }

  #ranges(): ExplainRange[] {
    const { blockSize, blocks } = this.#prompt;
    const length = this.#length;
    const ranges: ExplainRange[] = [];
    const add = (fromBlock: number, toBlock: number, verdict: BlockVerdict): void => {
      ranges.push({ fromBlock, toBlock, fromToken: fromBlock * blockSize, toToken: Math.min(length, toBlock * blockSize), verdict });
    };
    for (const [index, verdict] of this.#verdicts.entries()) {
      const last = ranges.at(-1);
      const joined = last === undefined ? undefined : join(last.verdict, verdict);
      if (last === undefined || joined === undefined) add(index, index + 1, verdict);
      else ranges[ranges.length - 1] = { ...last, toBlock: index + 1, toToken: (index + 1) * blockSize, verdict: joined };
    }
    if (length === 0 || blocks * blockSize === length) return ranges;
    if (blockSize > 0) add(blocks, blocks + 1, { kind: 'partial_block' });
    else ranges.push({ fromBlock: 0, toBlock: 0, fromToken: 0, toToken: length, verdict: { kind: 'unknown', reason: 'no_blocks', alsoOn: [] } });
    return ranges;
  }
}

/** One verdict for two neighbouring blocks, or `undefined` when they differ in kind or evidence. */
function join(a: BlockVerdict, b: BlockVerdict): BlockVerdict | undefined {
  if (a === b) return a;
  switch (a.kind) {
    case 'hit': return b.kind === 'hit' && a.lost === b.lost && isSame(a.media, b.media) ? a : undefined;
    case 'unreachable': return b.kind === 'unreachable' && isSame(a.media, b.media) ? a : undefined;
    case 'elsewhere': return b.kind === 'elsewhere' && isSame(a.streams, b.streams) ? a : undefined;
    case 'reset': return b.kind === 'reset' && a.atUnixMs === b.atUnixMs && a.reason === b.reason && isSame(a.alsoOn, b.alsoOn) ? a : undefined;
    case 'never_stored': return b.kind === 'never_stored' && a.sinceUnixMs === b.sinceUnixMs && a.nearest === b.nearest ? a : undefined;
    case 'unknown': return b.kind === 'unknown' && a.reason === b.reason && a.lost === b.lost && a.nearest === b.nearest && isSame(a.alsoOn, b.alsoOn) ? a : undefined;
    case 'evicted': {
      if (b.kind !== 'evicted' || a.lost !== b.lost || !isSame(a.alsoOn, b.alsoOn)) return undefined;
      // The block evicted first says best what began it.
      const first = b.fromUnixMs < a.fromUnixMs ? b : a;
      return { ...first, fromUnixMs: Math.min(a.fromUnixMs, b.fromUnixMs), toUnixMs: Math.max(a.toUnixMs, b.toUnixMs) };
    }
    // One object covers all blocks that these are about.
    case 'diverges': case 'other_key': case 'partial_block': return undefined;
  }
  return a;
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((value, at) => value === b[at]));
}
