/**
 * A small world of prompts to make events from: every prompt is a path of blocks, engines name blocks by a hash of their
 * path and of their own seed, and tell of them as engines do. Small enough that collisions of content are common.
 */
import { fc } from '../../support/properties.ts';
import { createHash } from 'node:crypto';
import type { KvEvent } from '#engine/kv-events/kv-event.ts';
import { removed, stored } from './events.ts';

export const BLOCK = 2;

/** A prompt: each number is one block's choice among few contents, the key applies to all of it. */
export interface WorldPrompt {
  readonly blocks: readonly number[];
  readonly lora: string | undefined;
  readonly salt: string | undefined;
}

export const promptArb: fc.Arbitrary<WorldPrompt> = fc.record({
  blocks: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 5 }),
  lora: fc.constantFrom(undefined, undefined, undefined, 'ad'),
  salt: fc.constantFrom(undefined, undefined, undefined, 's1'),
});

export const tokensOf = (choice: number): number[] => [10 + choice, 20 + (choice === 2 ? 1 : 0)];
export const promptTokens = (prompt: WorldPrompt): Uint32Array => Uint32Array.from(prompt.blocks.flatMap(tokensOf));

/** What tells block `index` from its siblings. */
export function contentOf(prompt: WorldPrompt, index: number): string {
  return `${prompt.blocks[index]}${prompt.lora === undefined ? '' : `+${prompt.lora}`}${index === 0 && prompt.salt !== undefined ? `+${prompt.salt}` : ''}`;
}

export function pathTo(prompt: WorldPrompt, index: number): string {
  return prompt.blocks.slice(0, index + 1).map((_, at) => `/${contentOf(prompt, at)}`).join('');
}

export function digestOf(seed: string, path: string): Buffer {
  return createHash('sha256').update(seed).update(path).digest();
}

/** Low 64 bits of the digest, as engines publish it. */
export function hashOf(seed: string, path: string): bigint {
  return digestOf(seed, path).readBigUInt64BE(24);
}

export type Form = 'int' | 'signed' | 'bytes';

export function named(seed: string, path: string, form: Form): bigint | Buffer {
  if (form === 'bytes') return digestOf(seed, path);
  const hash = hashOf(seed, path);
  return form === 'signed' ? BigInt.asIntN(64, hash) : hash;
}

/** Store of blocks `from` to `to` (excluded) of a prompt. */
export function storeEvent(prompt: WorldPrompt, range: { readonly from: number; readonly to: number }, how: { readonly seed: string; readonly form: Form; readonly medium: string; readonly group: number; readonly isPlaceholder: boolean }): KvEvent {
  const indexes = prompt.blocks.map((_, index) => index).slice(range.from, range.to);
  return stored(indexes.map((index) => named(how.seed, pathTo(prompt, index), how.form)), {
    ...(range.from > 0 && { parent: named(how.seed, pathTo(prompt, range.from - 1), how.form) }),
    tokens: how.isPlaceholder ? [] : indexes.flatMap((index) => tokensOf(prompt.blocks[index] ?? 0)),
    blockSize: how.isPlaceholder ? 0 : BLOCK,
    medium: how.medium,
    groupIdx: how.group,
    loraName: prompt.lora,
    extraKeys: indexes.map((index) => [...(prompt.lora === undefined ? [] : [prompt.lora]), ...(index === 0 && prompt.salt !== undefined ? [prompt.salt] : [])]),
  });
}

export function removeEvent(hash: bigint | Buffer, where: { readonly medium: string; readonly group: number }): KvEvent {
  return removed([hash], { medium: where.medium, groupIdx: where.group });
}
