/** A block as links and panels name it: by the index's own number, or by its hash within a stream. */
import { StreamIdSchema, type StreamId } from '#shared/ids.ts';
import type { BlockHashHex } from '#shared/kv.ts';

export type BlockRef =
  | { readonly node: number }
  | { readonly stream: StreamId; readonly hash: BlockHashHex };

/** `42`, or `p0/0:9f3ac4d1a0000001`. */
export function formatBlockRef(ref: BlockRef): string {
  return 'node' in ref ? String(ref.node) : `${ref.stream}:${ref.hash}`;
}

/** Reads what `formatBlockRef` wrote; undefined for anything else, because links are typed by people. */
export function parseBlockRef(text: string): BlockRef | undefined {
  if (/^\d{1,15}$/u.test(text)) return { node: Number(text) };
  const colon = text.lastIndexOf(':');
  const hash = text.slice(colon + 1).toLowerCase();
  const stream = StreamIdSchema.safeParse(text.slice(0, Math.max(0, colon)));
  return stream.success && /^[0-9a-f]{1,128}$/u.test(hash) ? { stream: stream.data, hash } : undefined;
}
