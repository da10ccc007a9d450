/**
 * The operations of the Cache view that the index answers, with what the rest of the engine knows put in: roles from the
 * fleet, trust from the streams.
 */
import type { Confidence } from '#shared/cache.ts';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { KvStreamView } from '#shared/kv.ts';
import type { OperationOutputs, ParsedOperationInput } from '#shared/operations.ts';
import type { Role } from '#shared/vocabulary.ts';
import { CacheViews } from './cache-views.ts';
import type { KvIndex } from './kv-index.ts';
import type { ViewContext } from './view-context.ts';

export interface CacheHandlerOptions {
  readonly index: KvIndex;
  readonly instances: () => readonly { readonly id: InstanceId; readonly role: Role }[];
  readonly streams: () => readonly KvStreamView[];
  /** Token ids of a text, by some instance. Absent: searching by text is refused. */
  readonly tokenize?: (text: string) => Promise<readonly number[]>;
  readonly bytesPerTokenOf?: ViewContext['bytesPerTokenOf'];
  readonly capacityBlocksOf?: ViewContext['capacityBlocksOf'];
  /** Unix ms. Default: the system's clock. */
  readonly now?: () => number;
}

type Name = 'cache.residency' | 'cache.tree' | 'cache.search' | 'cache.difference' | 'cache.storms' | 'cache.block';
export type CacheHandlers = { readonly [N in Name]: (input: ParsedOperationInput<N>) => Promise<OperationOutputs[N]> };

const MAX_REASONS = 20;

export function createCacheHandlers(options: CacheHandlerOptions): CacheHandlers {
  const views = new CacheViews(options.index, () => contextOf(options));
  const withRole = (...roles: readonly Role[]): InstanceId[] => options.instances().filter(({ role }) => roles.includes(role)).map(({ id }) => id);
  return {
    'cache.residency': ({ cells }) => views.residency(cells),
    'cache.tree': (query) => views.tree(query),
    'cache.search': async ({ text, tokens, limit }) => views.search(Uint32Array.from(tokens ?? await tokensOf(text, options.tokenize)), limit),
    'cache.difference': ({ left, right }) => views.difference({ left: left ?? withRole('prefill', 'both'), right: right ?? withRole('decode') }),
    'cache.storms': async ({ windowS, withinS }) => ({ storms: await views.storms({ windowMs: windowS * 1000, withinMs: withinS * 1000 }) }),
    'cache.block': (query) => views.block(query),
  };
}

async function tokensOf(text: string | undefined, tokenize: CacheHandlerOptions['tokenize']): Promise<readonly number[]> {
  if (text === undefined) throw new PdscopeError('bad_input', 'cache.search: name either a text or token ids.');
  if (tokenize === undefined) throw new PdscopeError('tokenizer_missing', 'No instance can tell the token ids of a text; search by token ids instead.');
  return tokenize(text);
}

function contextOf({ instances, streams, now, bytesPerTokenOf, capacityBlocksOf }: CacheHandlerOptions): ViewContext {
  const roles = new Map(instances().map(({ id, role }) => [id, role]));
  const byId = new Map(streams().map((view) => [view.id, view]));
  return {
    nowUnixMs: now?.() ?? Date.now(),
    roleOf: (instance) => roles.get(instance),
    confidenceOf: (ids) => confidence(ids, byId),
    ...(bytesPerTokenOf !== undefined && { bytesPerTokenOf }),
    ...(capacityBlocksOf !== undefined && { capacityBlocksOf }),
  };
}

/** The mean over the streams that an answer rests on, with their doubts, the heaviest first. */
function confidence(ids: readonly StreamId[], streams: ReadonlyMap<StreamId, KvStreamView>): Confidence {
  const found = ids.map((id) => streams.get(id)).filter((view) => view?.confidence !== undefined);
  if (found.length === 0) return { value: 0, reasons: [{ code: 'no-stream', text: 'No KV event stream is attached: nothing is known of these caches.' }] };
  const doubts = found.flatMap((view) => (view?.reasons ?? []).map(({ code, text, weight }) => ({ code, text, weight, stream: view?.id })));
  doubts.sort((a, b) => b.weight - a.weight);
  return {
    value: found.reduce((sum, view) => sum + (view?.confidence ?? 0), 0) / found.length,
    reasons: doubts.slice(0, MAX_REASONS).map(({ code, text, stream }) => ({ code, text, ...(stream !== undefined && { stream }) })),
  };
}
