/**
 * The operations of the Cache view that the index answers, with what the rest of the engine knows put in: roles from the
 * fleet, trust from the streams.
 */
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { KvStreamView } from '#shared/kv.ts';
import type { OperationOutputs, ParsedOperationInput } from '#shared/operations.ts';
import type { Role } from '#shared/vocabulary.ts';
import { CacheViews } from './cache-views.ts';
import { confidenceOf, confidenceOfInstances } from './confidence.ts';
import type { KvIndex } from './kv-index.ts';
import type { ViewContext } from './view-context.ts';

export interface CacheHandlerOptions {
  readonly index: KvIndex;
  readonly instances: () => readonly { readonly id: InstanceId; readonly name: string; readonly role: Role }[];
  readonly streams: () => readonly KvStreamView[];
  /** Token ids of a text, by some instance. Absent: searching by text is refused. */
  readonly tokenize?: (text: string) => Promise<readonly number[]>;
  readonly kvBytesOf?: ViewContext['kvBytesOf'];
  readonly gpuBlocksOf?: ViewContext['gpuBlocksOf'];
  /** Unix ms. Default: the system's clock. */
  readonly now?: () => number;
}

type Name = 'cache.residency' | 'cache.tree' | 'cache.search' | 'cache.difference' | 'cache.storms' | 'cache.block';
export type CacheHandlers = { readonly [N in Name]: (input: ParsedOperationInput<N>) => Promise<OperationOutputs[N]> };

export function createCacheHandlers(options: CacheHandlerOptions): CacheHandlers {
  const views = new CacheViews(options.index, () => contextOf(options));
  const withRole = (...roles: readonly Role[]): InstanceId[] => options.instances().filter(({ role }) => roles.includes(role)).map(({ id }) => id);
  return {
    'cache.residency': ({ cells }) => views.residency(cells),
    'cache.tree': (query) => views.tree(query),
    'cache.search': async ({ text, tokens, limit }) => views.search(tokens === undefined ? await readingsOf(text, options.tokenize) : [Uint32Array.from(tokens)], limit),
    'cache.difference': ({ left, right }) => views.difference({ left: left ?? withRole('prefill', 'both'), right: right ?? withRole('decode') }),
    'cache.storms': ({ windowS, withinS }) => views.storms({ windowMs: windowS * 1000, withinMs: withinS * 1000 }),
    'cache.block': (query) => views.block(query),
  };
}

/** A text's tokens, and those it has behind a space: tokenizers make the space part of a word. */
async function readingsOf(text: string | undefined, tokenize: CacheHandlerOptions['tokenize']): Promise<[Uint32Array, ...Uint32Array[]]> {
  if (text === undefined) throw new PdscopeError('bad_input', 'cache.search: name either a text or token ids.');
  if (tokenize === undefined) throw new PdscopeError('tokenizer_missing', 'No instance can tell the token ids of a text; search by token ids instead.');
  const asTyped = Uint32Array.from(await tokenize(text));
  return /^\s/u.test(text) ? [asTyped] : [asTyped, Uint32Array.from(await tokenize(` ${text}`))];
}

function contextOf({ instances, streams, now, kvBytesOf, gpuBlocksOf }: CacheHandlerOptions): ViewContext {
  const known = new Map(instances().map((instance) => [instance.id, instance]));
  const watched = streams();
  const byId = new Map(watched.map((view) => [view.id, view]));
  return {
    nowUnixMs: now?.() ?? Date.now(),
    roleOf: (instance) => known.get(instance)?.role,
    confidenceOf: (ids) => confidenceOf(ids, byId),
    confidenceIn: (ids) => (ids === undefined ? confidenceOf(Array.from(byId.keys()), byId) : confidenceOfInstances(ids, { streams: watched, nameOf: (id) => known.get(id)?.name })),
    ...(kvBytesOf !== undefined && { kvBytesOf }),
    ...(gpuBlocksOf !== undefined && { gpuBlocksOf }),
  };
}
