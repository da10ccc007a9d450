/** What a leg is called beside its instance. */
import type { LegView } from '#shared/request.ts';

/** Encode legs of one request run side by side, one per media item; the item stands in their request ids (`<id>:<item>:<6 hex>`). */
const ITEM = /:(\d+):[0-9a-f]{6}$/u;

/** `prefill leg`, `decode leg, attempt 2`, `encode leg, item 3`. */
export function legWords({ kind, attempt, requestHeaders }: Pick<LegView, 'kind' | 'attempt' | 'requestHeaders'>): string {
  if (kind !== 'encode') return `${kind} leg${attempt > 1 ? `, attempt ${attempt}` : ''}`;
  const item = ITEM.exec(requestHeaders['x-request-id'] ?? '')?.[1];
  return item === undefined ? 'encode leg' : `encode leg, item ${Number(item) + 1}`;
}
