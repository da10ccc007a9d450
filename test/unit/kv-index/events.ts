/** Events as decoded, for tests of the index. */
import { InstanceIdSchema, streamId } from '#shared/ids.ts';
import { readHashes, type BlockHashes } from '#engine/kv-events/block-hashes.ts';
import type { RemovedEvent, StoredEvent } from '#engine/kv-events/kv-event.ts';
import { runOf } from '#engine/kv-events/word-run.ts';
import type { StreamIdentity } from '#engine/kv-events/kv-row.ts';
import type { LostRange } from '#engine/kv-index/answers.ts';

export function hashes(values: readonly unknown[]): BlockHashes {
  const read = readHashes(values);
  if (typeof read === 'string') throw new Error(read);
  return read;
}

/** A store of blocks `values`, by default from token 0 on, of two tokens each. */
export function stored(values: readonly unknown[], extra: Partial<Omit<StoredEvent, 'parent' | 'tokens'>> & { readonly parent?: unknown; readonly tokens?: readonly number[] } = {}): StoredEvent {
  const { parent, tokens, ...rest } = extra;
  const blockSize = extra.blockSize ?? 2;
  return {
    kind: 'stored', hashes: hashes(values), parent: parent === undefined ? undefined : hashes([parent]),
    tokens: runOf(Uint32Array.from(tokens ?? Array.from({ length: values.length * blockSize }, (_, index) => 100 + index))), blockSize,
    loraId: undefined, loraName: undefined, medium: 'GPU', groupIdx: 0, specKind: undefined, slidingWindow: undefined, locality: undefined,
    ownership: undefined, sessionId: undefined, cacheSalt: undefined, extraKeys: undefined, isBigram: false, ...rest,
  };
}

export function removed(values: readonly unknown[], extra: Partial<RemovedEvent> = {}): RemovedEvent {
  return { kind: 'removed', hashes: hashes(values), medium: 'GPU', groupIdx: 0, locality: undefined, ownership: undefined, remainingCopies: undefined, ...extra };
}

export const cleared = { kind: 'cleared' } as const;

export function identity(name: string): StreamIdentity {
  const instance = InstanceIdSchema.parse(name);
  return { id: streamId(instance, 0), instance, instanceName: name.toUpperCase(), rank: 0 };
}

export function gap(from: number, to: number, untilUnixMs: number): LostRange {
  return { cause: 'gap', epoch: 1, from, to, sinceUnixMs: untilUnixMs - 1, untilUnixMs };
}

export const tokens = (...values: number[]): Uint32Array => Uint32Array.from(values);
