/** What a stream sent that was not as it should be, in words: counted by the engine, never fatal. Used by every view of streams. */
import type { KvStreamView } from '#shared/kv.ts';
import { formatCount, formatInteger } from '../ui/format.ts';

export interface OddInput {
  readonly count: number;
  /** With the count: `3 removals of blocks not held`. */
  readonly words: string;
  /** It took something away; the rest happens to sound streams too. */
  readonly isBad: boolean;
}

/** Every kind that occurred. Empty for a stream without. */
export function oddInput(stream: KvStreamView): readonly OddInput[] {
  const found: OddInput[] = [];
  const add = (count: number | undefined, words: (count: number) => string, isBad = false): void => {
    if (count !== undefined && count > 0) found.push({ count, words: words(count), isBad });
  };
  add(stream.droppedMessages, (count) => `${formatCount(count, 'message')} refused by pdscope’s own full queue`, true);
  add(stream.badMessages, (count) => `${formatCount(count, 'message')} that could not be read`, true);
  add(stream.badEvents, (count) => `${formatCount(count, 'event')} that could not be read, in batches that could`, true);
  add(stream.unknownEvents, (count) => `${formatCount(count, 'event')} of kinds that pdscope does not know, kept as they came`, true);
  add(stream.unknownFields, (count) => `${formatCount(count, 'field')} that pdscope does not know, or of an odd type, kept as they came`);
  add(stream.badTimestamps, (count) => `${formatCount(count, 'batch', 'batches')} whose timestamp is no time`);
  add(stream.unknownRemovals, (count) => `${formatCount(count, 'removal')} of blocks not held`);
  add(stream.unknownParents, (count) => `${formatCount(count, 'store')} after a block never seen stored`);
  add(stream.duplicateStores, (count) => `${formatCount(count, 'block')} stored while held already: copies`);
  add(stream.duplicateBatches, (count) => `${formatCount(count, 'batch', 'batches')} that came again, or late, left out`);
  add(stream.strayBatches, (count) => `${formatCount(count, 'batch', 'batches')} with old numbers, of another life of the engine or another publisher, left out`, true);
  add(stream.hashFormChanges, (count) => `${formatCount(count, 'batch', 'batches')} with hashes in another form than before`);
  return found;
}

/** `0`, `12 odd`, `▲ 3 bad, 12 odd`. */
export function oddWords(found: readonly OddInput[]): string {
  const sum = (isBad: boolean): number => found.reduce((total, one) => total + (one.isBad === isBad ? one.count : 0), 0);
  const bad = sum(true);
  const odd = sum(false);
  const parts = [...(bad > 0 ? [`▲ ${formatInteger(bad)} bad`] : []), ...(odd > 0 ? [`${formatInteger(odd)} odd`] : [])];
  return parts.length === 0 ? '0' : parts.join(', ');
}
