/**
 * A prompt's tokens from the blocks that its instance stored while it computed it, for prompts that no instance can
 * render or tokenise. What was hit is not stored again: it is read up the chain of parents in the index. Never guessed:
 * the blocks must be the only ones that can be the request's, by
 *
 *   usage       the prompt's tokens say at which depth its last whole block lies, cached tokens where storing began
 *   session     events that carry a `session_id` are told apart by it
 *   alone       no other request that could have stored so much ran on the instance meanwhile, as far as pdscope saw
 *
 * else the answer says what was in the way. The last tokens of a prompt fill no block and are never known. Pure.
 */
import type { BlockKey } from '../kv-index/answers.ts';
import type { BlockGraph } from '../kv-index/block-graph.ts';
import { ROOT } from '../kv-index/node-table.ts';
import { blockSizeOf } from '../kv-index/prefix-query.ts';
import type { StreamBlocks } from '../kv-index/stream-blocks.ts';
import type { PromptAnswer } from './prompt-tokens.ts';
import type { RecentStore, StoredSpan } from './recent-stores.ts';

export interface EventQuestion {
  /** Streams of the instance that may have computed it, and what each stored meanwhile. */
  readonly spans: readonly (StoredSpan & { readonly stream: StreamBlocks })[];
  /** Of the leg's usage, where the engine told it. */
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  /** Keys of the prompt's blocks. */
  readonly salt: string | undefined;
  readonly lora: string | undefined;
  readonly sessionId: string | undefined;
  /** The leg generated an answer, whose blocks follow on those of the prompt. */
  readonly isGenerating: boolean;
  /** Tokens that each other request on the instance may have stored, prompt and answer; undefined where that is not known. */
  readonly others: readonly (number | undefined)[];
  /** Blocks found in the cache are published too (`kv_cache_report_mode`). */
  readonly isReporting: boolean;
}

/** Blocks of one prompt at most; far beyond any context length. */
const MAX_DEPTH = 262_144;

/** Blocks of one event, placed in the tree. */
interface Run {
  readonly stream: StreamBlocks;
  readonly sessionId: string | undefined;
  readonly last: number;
  /** The block at token 0 that it descends from; it has the keys of the whole prompt. */
  readonly first: number;
  /** Blocks from token 0 on before the run, and with it. */
  readonly from: number;
  readonly to: number;
}

/** Where a chain from token 0 is at a node. */
interface Place {
  readonly first: number;
  readonly depth: number;
}

export function eventTokens(graph: BlockGraph, question: EventQuestion): PromptAnswer {
  const { spans, promptTokens, isGenerating } = question;
  const blockSize = spans.reduce((size, { stream }) => Math.max(size, blockSizeOf(stream)), 0);
  if (blockSize === 0) return no('the instance has published no block with tokens');
  if (promptTokens === undefined && isGenerating) return no('the answer carries no usage, so nothing tells where among the stored blocks the prompt ends');
  const blocks = promptTokens === undefined ? undefined : Math.floor(promptTokens / blockSize);
  if (blocks === 0) return no(`a prompt of ${promptTokens} tokens fills no block of ${blockSize}`);
  if (spans.some(({ isWhole }) => !isWhole)) return no('more blocks were stored on the instance meanwhile than are remembered');
  const stored = spans.flatMap(({ stores }) => stores).length;
  const places = new Map<number, Place>();
  const runs = spans.flatMap(({ stream, stores }) => stores.map((store) => runOf(graph, stream, { store, places })).filter((run) => run !== undefined));
  const own = ownRuns(graph, runs, question);
  if (own.length === 0) return no(nothingFound(question, { stored, placed: runs.length, blockSize }));
  const ends = blocks === undefined ? tips(graph, own, question) : endsAt(graph, own, { blocks, blockSize, question });
  const [end] = ends;
  if (end === undefined) return no('no chain of blocks stored meanwhile is as long as the prompt');
  if (ends.length > 1) return no(`${ends.length} prompts of the same length were stored on the instance meanwhile, and nothing tells which is this one`);
  if (!end.isProven && !isAlone(question, blocks === undefined ? undefined : blocks * blockSize)) {
    return no('other requests ran on the instance meanwhile, and neither cached tokens nor a session id tell whose blocks these are');
  }
  return read(graph, end, { blockSize, length: promptTokens });
}

function no(reason: string): PromptAnswer {
  return { ok: false, reason };
}

/** Undefined where the chain to token 0 is not known. */
function runOf(graph: BlockGraph, stream: StreamBlocks, { store, places }: { readonly store: RecentStore; readonly places: Map<number, Place> }): Run | undefined {
  const { last: [high, low], parent, blocks, sessionId } = store;
  const last = graph.holdings.nodeOfHash(stream.number, high, low);
  if (last === 0 || !graph.nodes.isPlaced(last)) return undefined;
  const { first, depth: to } = placeOf(graph, last, places);
  // An event that says it begins at token 0 has as many blocks as its last one is deep.
  return to > MAX_DEPTH || to < blocks || (parent === undefined && to !== blocks) ? undefined : { stream, sessionId, last, first, from: to - blocks, to };
}

/** A long prompt is stored in many events, each after the one before: the way up ends where an earlier one ended. */
function placeOf({ nodes }: BlockGraph, last: number, places: Map<number, Place>): Place {
  let [node, first, depth] = [last, last, 0];
  let known = places.get(node);
  while (known === undefined && node !== ROOT && depth <= MAX_DEPTH) {
    first = node;
    depth += 1;
    node = nodes.parentOf(node);
    known = places.get(node);
  }
  const place = known === undefined ? { first, depth } : { first: known.first, depth: known.depth + depth };
  places.set(last, place);
  return place;
}

/** Runs that can be the request's: of its session, where both tell one, and under its keys. */
function ownRuns(graph: BlockGraph, runs: readonly Run[], { sessionId, salt, lora }: EventQuestion): readonly Run[] {
  const fits = runs.filter(({ first }) => {
    const key = keyOf(graph, first);
    return key.salt === salt && key.lora === lora;
  });
  if (sessionId === undefined) return fits;
  const ofSession = fits.filter((run) => run.sessionId === sessionId);
  return ofSession.length > 0 ? ofSession : fits.filter((run) => run.sessionId === undefined);
}

function nothingFound({ promptTokens, cachedTokens }: EventQuestion, { stored, placed, blockSize }: { readonly stored: number; readonly placed: number; readonly blockSize: number }): string {
  if (promptTokens !== undefined && cachedTokens !== undefined && cachedTokens >= Math.floor((promptTokens - 1) / blockSize) * blockSize) {
    return `the engine found ${cachedTokens} of ${promptTokens} tokens in its cache, all that can be, so it stored no block that would tell them`;
  }
  if (stored === 0) return 'the instance stored no block while it computed the prompt';
  return placed === 0 ? 'the blocks that the instance stored follow on blocks that pdscope never saw' : 'the blocks that the instance stored meanwhile are under other keys (salt, adapter or session)';
}

interface End {
  readonly node: number;
  readonly depth: number;
  /** Usage or session say that it is this request's. */
  readonly isProven: boolean;
}

/**
 * Blocks at the depth at which the prompt's last whole block lies, each once. The engine stores a prompt's blocks before
 * those of the answer, so an event ends there (vllm/v1/core/kv_cache_manager.py, allocate_slots).
 */
function endsAt(graph: BlockGraph, runs: readonly Run[], { blocks, blockSize, question }: { readonly blocks: number; readonly blockSize: number; readonly question: EventQuestion }): readonly End[] {
  const { cachedTokens, sessionId, isReporting } = question;
  const cachedBlocks = cachedTokens === undefined ? blocks : Math.floor(cachedTokens / blockSize);
  const starts = cachedBlocks >= blocks ? [] : isReporting ? [cachedBlocks, 0] : [cachedBlocks];
  const starters = new Set(runs.filter(({ from }) => starts.includes(from)).map(({ last }) => last));
  const byNode = new Map<number, End>();
  for (const { to, last: node, sessionId: session } of runs) {
    if (to !== blocks) continue;
    const isProven = (sessionId !== undefined && session === sessionId) || passes(graph, node, starters);
    byNode.set(node, { node, depth: blocks, isProven: isProven || byNode.get(node)?.isProven === true });
  }
  const ends = Array.from(byNode.values());
  const proven = ends.filter((end) => end.isProven);
  return proven.length > 0 ? proven : ends;
}

/** Whether a run on the way to `end`, itself included, begins after as many blocks as the engine found in its cache. */
function passes({ nodes }: BlockGraph, end: number, starters: ReadonlySet<number>): boolean {
  if (starters.size === 0) return false;
  for (let node = end; node !== ROOT; node = nodes.parentOf(node)) if (starters.has(node)) return true;
  return false;
}

/** Ends of chains that nothing stored meanwhile goes on from. */
function tips(graph: BlockGraph, runs: readonly Run[], { sessionId }: EventQuestion): readonly End[] {
  const inner = new Set<number>();
  for (const { last, from, to } of runs) {
    let node = last;
    for (let depth = to; depth > from; depth -= 1) {
      node = graph.nodes.parentOf(node);
      inner.add(node);
    }
  }
  const byNode = new Map(runs.filter(({ last }) => !inner.has(last)).map((run) => [run.last, run]));
  return Array.from(byNode, ([node, run]) => ({ node, depth: run.to, isProven: sessionId !== undefined && run.sessionId === sessionId }));
}

/** `needed`: tokens that another one must have to have stored these blocks. */
function isAlone({ others }: EventQuestion, needed: number | undefined): boolean {
  return others.every((tokens) => tokens !== undefined && needed !== undefined && tokens < needed);
}

function keyOf({ extras, nodes }: BlockGraph, node: number): BlockKey {
  return extras.read(nodes.extraOf(node));
}

function read(graph: BlockGraph, { node: end, depth }: End, { blockSize, length }: { readonly blockSize: number; readonly length: number | undefined }): PromptAnswer {
  const { nodes } = graph;
  const tokens = new Uint32Array(depth * blockSize);
  const media = Array.from({ length: depth }, (): BlockKey['media'] | undefined => undefined);
  let node = end;
  for (let block = depth - 1; block >= 0; block -= 1) {
    const own = nodes.tokensOf(node);
    if (own?.length !== blockSize) return no('the blocks that the instance stored meanwhile follow on blocks of another size');
    tokens.set(own, block * blockSize);
    media[block] = keyOf(graph, node).media;
    node = nodes.parentOf(node);
  }
  const hasMedia = media.some((own) => own !== undefined);
  return { ok: true, prompt: { tokens, from: 'events', media: [], ...(hasMedia && { mediaByBlock: media }), ...(length !== undefined && { length }) } };
}
