/**
 * What a decode instance held of a prompt when its leg was sent: the beginning of the prompt, in whole blocks, by its KV
 * events at that time. Engines always compute the last token (a request needs one to go on from), so a block that ends
 * with the prompt does not count.
 */
import type { Confidence } from '#shared/cache.ts';
import type { StreamId } from '#shared/ids.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import { blockSizeOf } from '../kv-index/prefix-query.ts';
import type { LegRecord, RequestRecord } from '../telemetry/request-record.ts';
import { mediaByBlock, type PromptTokens } from './prompt-tokens.ts';

export interface HeldAtDecode {
  /** Which of the record's legs. */
  readonly leg: number;
  readonly promptTokens: number;
  readonly heldTokens: number;
  readonly confidence: Confidence;
}

export interface HeldInput {
  readonly prompt: PromptTokens;
  readonly lora: string | undefined;
  readonly salt: string | undefined;
  readonly confidenceOf: (stream: StreamId) => Confidence;
}

/** Whether a leg is a decode leg that was told where to fetch the prompt's KV. */
export function isFetchingDecode({ kind, transferParamsSent }: Pick<LegRecord, 'kind' | 'transferParamsSent'>): boolean {
  return kind === 'decode' && transferParamsSent !== undefined;
}

/**
 * In slices. Of the last decode leg that fetches. Undefined when there is none yet, when the prompt's end is not known,
 * when its instance has no stream, and when it has several ranks and none was named: which of them ran it is not known.
 */
export function* heldSteps(record: RequestRecord, index: KvIndex, { prompt, lora, salt, confidenceOf }: HeldInput): Generator<undefined, HeldAtDecode | undefined> {
  const at = record.legs.findLastIndex(isFetchingDecode);
  const leg = record.legs[at];
  // Of a prompt whose end is not known, what was lacking is not known either.
  if (leg === undefined || (prompt.from === 'events' && prompt.length === undefined)) return undefined;
  const ranks = index.streams.filter(({ identity, isClosed }) => identity.instance === leg.instance.id && !isClosed && (leg.rank === undefined || identity.rank === leg.rank));
  const [stream] = ranks;
  const size = stream === undefined ? 0 : blockSizeOf(stream);
  // A stream that has told no block yet says nothing about what its engine holds.
  if (stream === undefined || ranks.length > 1 || size === 0) return undefined;
  const { id } = stream.identity;
  const atUnixMs = Date.now() - (record.elapsedMs() - leg.sentMs);
  const media = prompt.mediaByBlock ?? mediaByBlock(prompt.media, size);
  const { paths } = yield* index.prefixSteps(prompt.tokens, { lora, salt, media, atUnixMs, streams: new Set([id]), withDivergence: false });
  const matched = paths[0]?.matches[0]?.tokens ?? 0;
  const promptTokens = prompt.length ?? prompt.tokens.length;
  return { leg: at, promptTokens, heldTokens: Math.min(matched, Math.floor(Math.max(0, promptTokens - 1) / size) * size), confidence: confidenceOf(id) };
}
