/** Makes the report why a prompt hit or missed, from the index as it was when the prompt was scheduled. */
import type { Confidence, MissRange, MissReport, NodeHolder } from '#shared/cache.ts';
import type { InstanceId, RecordId, StreamId } from '#shared/ids.ts';
import type { Role } from '#shared/vocabulary.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import { missRanges } from '../kv-index/miss-ranges.ts';
import { blockSizeOf } from '../kv-index/prefix-query.ts';
import type { PromptKeys } from '../kv-index/prompt.ts';
import type { StreamBlocks } from '../kv-index/stream-blocks.ts';
import type { KeptMiss } from './kept-report.ts';
import { missShares } from './miss-shares.ts';
import { mediaByBlock, type PromptTokens } from './prompt-tokens.ts';

export interface ReportInput {
  readonly request: RecordId;
  readonly prompt: PromptTokens;
  /** When it was scheduled, by our clock. */
  readonly atUnixMs: number;
  readonly instance: InstanceId;
  /** The rank it was pinned to. */
  readonly rank: number | undefined;
  readonly lora: string | undefined;
  readonly salt: string | undefined;
  /** Its place among the legs of the record. */
  readonly leg: number;
  /** Tokens per block at that time. Default: those of the instance now. */
  readonly blockSize?: number;
}

export interface ReportContext {
  readonly index: KvIndex;
  readonly roleOf: (instance: InstanceId) => Role | undefined;
  readonly confidenceOf: (stream: StreamId) => Confidence;
  /** Tokens per block as the engine itself says, for an instance that has published none yet. */
  readonly blockSizeOf: (instance: InstanceId) => number | undefined;
}

/** Ranges and matches kept; a prompt whose blocks alternate more often is cut. */
const MAX_RANGES = 64;
const MAX_MATCHES = 64;
/** Which of several ranks ran a prompt is concluded, not told. */
const GUESSED_RANK = 0.7;

/** Done in slices of a millisecond or less for prompts of 8,192 tokens over 32 streams; all of it is as of the time asked for. */
export function* reportSteps(input: ReportInput, context: ReportContext): Generator<undefined, KeptMiss> {
  const { index } = context;
  const { tokens, media, from, length } = input.prompt;
  const streams = index.streams.filter(({ identity, isClosed }) => identity.instance === input.instance && !isClosed);
  const chosen = chooseStream(streams, input, context);
  if (chosen === undefined) return { state: 'unavailable', reason: 'the instance that computed the prompt has no KV event stream, so nothing is known of its cache', isPending: false };
  const { stream, isGuess } = chosen;
  const { identity } = stream;
  const blockSize = input.blockSize ?? (blockSizeOf(stream) || (context.blockSizeOf(input.instance) ?? 0));
  const keys: PromptKeys = { lora: input.lora, salt: input.salt, media: input.prompt.mediaByBlock ?? mediaByBlock(media, blockSize) };
  const { atUnixMs } = input;
  // Of a prompt whose length is not known, at least one token follows: nothing is said about it.
  const isOpen = from === 'events' && length === undefined;
  yield undefined;
  const explanation = yield* index.explainSteps(tokens, identity.id, { ...keys, ...(blockSize > 0 && { blockSize }), atUnixMs, length: isOpen ? tokens.length + 1 : length });
  yield undefined;
  const all = missRanges(explanation, { holderOf: (id) => holderOf(id, context), namesOf: (node) => index.namesOf(node) });
  const ranges = isOpen ? all.filter(({ fromBlock }) => fromBlock * blockSize < tokens.length) : all;
  yield undefined;
  const { paths } = yield* index.prefixSteps(tokens, { ...keys, atUnixMs, withDivergence: false });
  yield undefined;
  const prefixes = paths.flatMap((path) => path.matches);
  const matches = prefixes.toSorted((a, b) => b.tokens - a.tokens).map((match) => {
    const found = index.stream(match.stream);
    const of = found?.identity;
    const isLeast = found !== undefined && found.forgottenUntilUnixMs > atUnixMs && match.tokens + blockSizeOf(found) <= tokens.length;
    return {
      stream: match.stream, instanceName: of?.instanceName ?? match.stream,
      role: of === undefined ? 'both' as const : (context.roleOf(of.instance) ?? 'both'), tokens: match.tokens, wasChosen: match.stream === identity.id,
      ...(isLeast && { isLeast }),
    };
  });
  const shares = missShares(ranges, tokens, context.roleOf(input.instance));
  const report: MissReport = {
    request: input.request, state: 'ready', tokensFrom: from, ...(from === 'events' && { tokensNote: noteOf(tokens.length, length) }), atUnixMs,
    stream: identity.id, instanceName: identity.instanceName, promptTokens: length ?? tokens.length, blockSize,
    ranges: ranges.slice(0, MAX_RANGES).map(compact),
    matches: matches.filter((match, at) => at < MAX_MATCHES || match.wasChosen),
    confidence: trust(context.confidenceOf(identity.id), isGuess ? identity.id : undefined),
  };
  return { state: 'ready', report, shares, leg: input.leg, bytes: 800 + report.ranges.length * 500 + report.matches.length * 200 + shares.length * 600 };
}

/** What follows from reading tokens off stored blocks. */
function noteOf(known: number, length: number | undefined): string {
  if (length === undefined) return `the prompt's first ${known} tokens are known; how many follow is not, fewer than a block`;
  return known === length ? 'all of its tokens are known' : `the prompt's first ${known} tokens are known; the last ${length - known} fill no block, so no event tells them`;
}

/** The pinned rank, else the only one, else the one that holds most of the prompt now that it was computed. */
function chooseStream(streams: readonly StreamBlocks[], { rank, prompt, lora, salt }: ReportInput, { index }: ReportContext): { readonly stream: StreamBlocks; readonly isGuess: boolean } | undefined {
  if (rank !== undefined || streams.length < 2) {
    const stream = rank === undefined ? streams[0] : streams.find(({ identity }) => identity.rank === rank);
    return stream === undefined ? undefined : { stream, isGuess: false };
  }
  const media = prompt.mediaByBlock ?? mediaByBlock(prompt.media, streams.reduce((size, stream) => Math.max(size, blockSizeOf(stream)), 0));
  const { paths } = index.prefix(prompt.tokens, { lora, salt, media, streams: new Set(streams.map(({ identity }) => identity.id)), withDivergence: false });
  const best = paths[0]?.matches[0]?.stream;
  const stream = streams.find(({ identity }) => identity.id === best) ?? streams[0];
  return stream === undefined ? undefined : { stream, isGuess: true };
}

function trust(confidence: Confidence, guessed: StreamId | undefined): Confidence {
  if (guessed === undefined) return confidence;
  const reason = { code: 'rank-guessed', text: 'Which data-parallel rank computed the prompt was not told; this is the one that holds most of it.', stream: guessed };
  return { ...confidence, value: confidence.value * GUESSED_RANK, reasons: [reason, ...confidence.reasons] };
}

function holderOf(id: StreamId, { index, roleOf }: ReportContext): NodeHolder | undefined {
  const stream = index.stream(id);
  if (stream === undefined) return undefined;
  const { instance, instanceName } = stream.identity;
  return { stream: id, instance, instanceName, role: roleOf(instance) ?? 'both', medium: stream.residencies[0]?.medium ?? 'GPU' };
}

/** Holders that are many say nothing more. */
function compact(range: MissRange): MissRange {
  return range.elsewhere === undefined || range.elsewhere.length <= 8 ? range : { ...range, elsewhere: range.elsewhere.slice(0, 8) };
}
