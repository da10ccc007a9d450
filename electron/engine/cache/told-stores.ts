/**
 * Whether a stream has told yet what its engine stored for a leg. Events come within milliseconds of the answer mostly, but
 * from a slow stream later, and what is concluded from a part of them is wrong: of two prompts at the same time the one
 * that was told looks like the only one.
 *
 * Told it is when an event came that was published after the answer, as a stream keeps its order; or when as many blocks
 * were told as requests computed meanwhile, by their usage. An engine that stored nothing publishes nothing, so where usage
 * does not say whether there is something to tell, that stays open. Pure.
 */
import type { Fleet } from '../fleet/fleet.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import { blockSizeOf } from '../kv-index/prefix-query.ts';
import type { LegRecord } from '../telemetry/request-record.ts';
import { isComputing } from './computing-leg.ts';
import type { RecentStores } from './recent-stores.ts';
import { computedBlocks } from './store-witness.ts';

export interface ToldStoresOptions {
  readonly index: Pick<KvIndex, 'streams'>;
  readonly stores: Pick<RecentStores, 'between' | 'heardUntil'>;
  readonly fleet: Pick<Fleet, 'get'>;
  /** Legs that answered lately. */
  readonly legs: () => readonly LegRecord[];
  /** The prompt's tokens are read off what was told, so that nothing may be that of a request which has not answered yet. */
  readonly isReadFromEvents?: boolean;
}

/** `open`: usage does not say whether there is anything to tell, and nothing was told. */
export type Told = 'told' | 'awaited' | 'open';

/** Engine clocks are believed to agree with ours up to here (publisher-clock.ts). */
const CLOCKS_MS = 250;
/** What legs stored that answered so long before this one was sent may be on its way as well. */
const BEFORE_MS = 1000;
/** Where nobody told the size of blocks: the largest that vLLM has, so that no block more is awaited than was stored. */
const LARGEST_BLOCK = 256;

export function toldStores(leg: LegRecord, sentAtUnixMs: number, { index, stores, fleet, legs, isReadFromEvents = false }: ToldStoresOptions): Told {
  const { instance: { id }, rank, sentMs, firstByteMs = sentMs } = leg;
  const streams = index.streams.filter(({ identity, isClosed }) => identity.instance === id && !isClosed && (rank === undefined || identity.rank === rank));
  if (streams.length === 0) return 'told';
  const answeredAtUnixMs = sentAtUnixMs + firstByteMs - sentMs;
  if (streams.every(({ identity }) => stores.heardUntil(identity.id) > answeredAtUnixMs + CLOCKS_MS)) return 'told';
  const found = fleet.get(id);
  const answering = legs().filter((other) => other.instance.id === id && other.outcome === 'running').length;
  if (isReadFromEvents && (found?.inFlight ?? 0) > answering) return 'awaited';
  const blockSize = streams.reduce((size, stream) => Math.max(size, blockSizeOf(stream)), 0) || (found?.transfer?.blockSize ?? found?.gauges?.blockSize ?? LARGEST_BLOCK);
  const beginMs = beganAt(leg);
  let needed = computedBlocks(leg, blockSize);
  let firstMs = beginMs;
  for (const other of legs()) {
    const isBeside = other !== leg && other.instance.id === id && (rank === undefined || other.rank === undefined || other.rank === rank);
    if (!isBeside || other.firstByteMs === undefined || other.outcome === 'error' || !isComputing(other)) continue;
    if (other.record.receivedMs + other.firstByteMs < beginMs - BEFORE_MS) continue;
    const blocks = computedBlocks(other, blockSize);
    if (blocks === 0) continue;
    needed += blocks;
    firstMs = Math.min(firstMs, beganAt(other));
  }
  const spans = streams.map(({ identity }) => stores.between(identity.id, sentAtUnixMs - (beginMs - firstMs), Number.POSITIVE_INFINITY));
  // More than is remembered: much was told since.
  if (spans.some(({ isWhole }) => !isWhole)) return 'told';
  const told = spans.reduce((sum, span) => span.stores.reduce((blocks, store) => blocks + store.blocks, sum), 0);
  if (told < needed) return 'awaited';
  const { promptTokens, cachedTokens } = leg.usage ?? {};
  return told === 0 && (promptTokens === undefined || cachedTokens === undefined) ? 'open' : 'told';
}

function beganAt({ record, sentMs }: LegRecord): number {
  return record.receivedMs + sentMs;
}
