/** Answers the cache views of pages and commands: the index's answers, with the fleet's facts and decoded text put in. */
import type { TreeNode } from '#shared/cache.ts';
import { PdscopeError } from '#shared/errors.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { KvEvents } from '../kv-events/kv-events.ts';
import { createCacheHandlers, type CacheHandlers } from '../kv-index/cache-handlers.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import { asJsonObject } from '../proxy/client-request.ts';
import { tokenIdsOf } from '../proxy/token-ids.ts';
import type { EngineCall } from './engine-call.ts';
import { kvBytesOf } from './kv-bytes.ts';
import type { TextQuestion, TokenText } from './token-text.ts';

export interface CacheAnswersOptions {
  readonly index: KvIndex;
  readonly fleet: Pick<Fleet, 'get' | 'list'>;
  readonly kvEvents: Pick<KvEvents, 'streams'>;
  readonly text: TokenText;
  readonly call: EngineCall;
  readonly authorization: string | undefined;
}

/** Instances asked for the tokens of one text. */
const MAX_ASKED = 3;

export function createCacheAnswers(options: CacheAnswersOptions): CacheHandlers {
  const { index, fleet, kvEvents, text } = options;
  const bare = createCacheHandlers({
    index,
    instances: () => fleet.list(),
    streams: () => kvEvents.streams(),
    tokenize: (asked) => tokenize(asked, options),
    kvBytesOf: (instance) => kvBytesOf(instance, fleet.list()),
    gpuBlocksOf: (stream) => {
      const instance = index.stream(stream)?.identity.instance;
      return instance === undefined ? undefined : fleet.get(instance)?.gauges?.gpuBlocks;
    },
  });
  const withText = async (lines: readonly TreeNode[]): Promise<TreeNode[]> => {
    const questions = lines.map(({ tokens, holders }): TextQuestion => ({ tokens, holders: holders.map(({ instance }) => instance) }));
    const texts = await text.decode(questions);
    return lines.map((line, at) => {
      const found = texts[at];
      return found === undefined ? line : { ...line, text: found };
    });
  };
  const withSamples = async <Part extends { readonly samples: readonly TreeNode[] }>(part: Part): Promise<Part> => ({ ...part, samples: await withText(part.samples) });
  return {
    'cache.residency': bare['cache.residency'],
    'cache.tree': async (input) => {
      const page = await bare['cache.tree'](input);
      const [path, children] = await Promise.all([withText(page.path), withText(page.children)]);
      return { ...page, path, children };
    },
    'cache.search': async (input) => {
      const found = await bare['cache.search'](input);
      return { ...found, matches: await withText(found.matches) };
    },
    'cache.difference': async (input) => {
      const found = await bare['cache.difference'](input);
      const [onlyLeft, onlyRight, both] = await Promise.all([withSamples(found.onlyLeft), withSamples(found.onlyRight), withSamples(found.both)]);
      return { ...found, onlyLeft, onlyRight, both };
    },
    'cache.storms': async (input) => {
      const found = await bare['cache.storms'](input);
      return { ...found, storms: await Promise.all(found.storms.map(withSamples)) };
    },
    'cache.block': async (input) => {
      const detail = await bare['cache.block'](input);
      const [parents, children, [own]] = await Promise.all([
        withText(detail.parents),
        withText(detail.children),
        text.decode([{ tokens: detail.tokens, holders: detail.holders.map(({ instance }) => instance) }]),
      ]);
      return { ...detail, parents, children, ...(own !== undefined && { text: own }) };
    },
  };
}

/**
 * As the text would stand inside a prompt: without the tokens that a tokenizer puts around a whole one.
 * @throws PdscopeError `tokenizer_missing`.
 */
async function tokenize(text: string, { fleet, call, authorization }: CacheAnswersOptions): Promise<number[]> {
  const able = fleet.list().filter(({ state, role }) => state === 'up' && role !== 'encode').toSorted((a, b) => a.inFlight - b.inFlight);
  let reason = 'no instance is up';
  for (const instance of able.slice(0, MAX_ASKED)) {
    const [model] = instance.models;
    const body = JSON.stringify({ ...(model !== undefined && { model }), prompt: text, add_special_tokens: false });
    const answer = await call.post(instance, '/tokenize', { body, authorization });
    const tokens = answer.ok ? tokenIdsOf(asJsonObject(answer.json)?.['tokens']) : undefined;
    if (tokens !== undefined) return Array.from(tokens);
    reason = answer.ok ? `${instance.name} answered no tokens` : answer.reason;
  }
  throw new PdscopeError('tokenizer_missing', `The text could not be made tokens: ${reason}. Search by token ids instead.`);
}
