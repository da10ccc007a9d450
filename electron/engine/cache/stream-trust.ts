/** The confidence of an answer about one stream, as the cache views carry it. */
import type { Confidence } from '#shared/cache.ts';
import type { KvStreamView } from '#shared/kv.ts';

export function streamTrust(view: Pick<KvStreamView, 'id' | 'confidence' | 'reasons'> | undefined): Confidence {
  if (view?.confidence === undefined) return { value: 0, reasons: [{ code: 'no-stream', text: 'The KV event stream is not watched any more: nothing is known of this cache.' }] };
  return { value: view.confidence, reasons: (view.reasons ?? []).map(({ code, text }) => ({ code, text, stream: view.id })) };
}
