/**
 * How far answers that rest on KV event streams can be trusted.
 *
 * Of several streams the answer is as good as the worst one. Not the mean, and not one weighted by blocks: a stream that
 * is dead holds no blocks in the index, so it would weigh nothing in the very answer that lacks them.
 */
import type { Confidence } from '#shared/cache.ts';
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { KvStreamView } from '#shared/kv.ts';

type Reasons = Confidence['reasons'];

/** Reasons and streams listed; beyond it the heaviest stay. */
const MAX_REASONS = 20;
const MAX_STREAMS = 64;

const NOT_WATCHED: Reasons[number] = { code: 'no-stream', text: 'The KV event stream is not watched any more: nothing is known of this cache.' };

/** Of one stream, as it says of itself. */
export function streamConfidence(view: Pick<KvStreamView, 'id' | 'confidence' | 'reasons'> | undefined): Confidence {
  if (view?.confidence === undefined) return unwatched(view?.id);
  return { value: view.confidence, reasons: (view.reasons ?? []).map(({ code, text }) => ({ code, text, stream: view.id })), over: [{ stream: view.id, value: view.confidence }] };
}

function unwatched(stream: StreamId | undefined): Confidence {
  return stream === undefined ? { value: 0, reasons: [NOT_WATCHED] } : { value: 0, reasons: [{ ...NOT_WATCHED, stream }], over: [{ stream, value: 0 }] };
}

/** Of an answer that rests on these streams. A stream that is not watched counts with 0; no stream at all is 0. */
export function confidenceOf(ids: readonly StreamId[], streams: ReadonlyMap<StreamId, KvStreamView>): Confidence {
  const parts = ids.map((id) => streamConfidence(streams.get(id) ?? { id }));
  return lowestConfidence(parts) ?? { value: 0, reasons: [{ code: 'no-stream', text: 'No KV event stream is attached: nothing is known of these caches.' }] };
}

/** Of all that these instances hold. One without a stream counts with 0: nothing that it holds is in the answer. */
export function confidenceOfInstances(ids: readonly InstanceId[], known: { readonly streams: readonly KvStreamView[]; readonly nameOf: (instance: InstanceId) => string | undefined }): Confidence {
  const byId = new Map(known.streams.map((view) => [view.id, view]));
  const parts = ids.map((id): Confidence => {
    const own = known.streams.filter(({ instance }) => instance === id).map((view) => view.id);
    return own.length > 0 ? confidenceOf(own, byId) : { value: 0, reasons: [{ code: 'no-stream', text: `${known.nameOf(id) ?? id} has no KV event stream: nothing that it holds is in these figures.` }] };
  });
  return lowestConfidence(parts) ?? confidenceOf([], byId);
}

/**
 * Of an answer that rests on several others: the lowest, with the reasons of all, the worst part's first. Every part
 * gives its heaviest reason before any gives its second, so that none is crowded out. Undefined of nothing.
 */
export function lowestConfidence(parts: readonly Confidence[]): Confidence | undefined {
  const worstFirst = parts.toSorted((a, b) => a.value - b.value);
  const [worst] = worstFirst;
  if (worst === undefined) return undefined;
  const reasons: Reasons[number][] = [];
  const most = worstFirst.reduce((length, part) => Math.max(length, part.reasons.length), 0);
  for (let nth = 0; nth < most && reasons.length < MAX_REASONS; nth += 1) {
    for (const part of worstFirst) {
      const reason = part.reasons[nth];
      if (reason !== undefined && reasons.length < MAX_REASONS && !reasons.some(({ code, stream, text }) => code === reason.code && stream === reason.stream && text === reason.text)) reasons.push(reason);
    }
  }
  const streams = new Map<StreamId, number>();
  for (const { stream, value } of worstFirst.flatMap(({ over }) => over ?? [])) streams.set(stream, Math.min(value, streams.get(stream) ?? 1));
  const over = Array.from(streams, ([stream, value]) => ({ stream, value })).toSorted((a, b) => a.value - b.value);
  return { value: worst.value, reasons, ...(over.length > 0 && { over: over.slice(0, MAX_STREAMS), streams: over.length }) };
}
