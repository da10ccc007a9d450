/** What each source of a hit rate counts, and how it is drawn. */
import type { HitSource } from '#shared/cache.ts';

export interface SourceLook {
  readonly label: string;
  /** Where the number comes from and what it leaves out. */
  readonly meaning: string;
  readonly color: string;
  /** Tells lines apart without colour. */
  readonly dash: string;
}

/** In the order in which sources are listed: the engine's own words first, pdscope's index last. */
export const SOURCE_LOOK: Readonly<Record<HitSource, SourceLook>> = {
  'engine-local': {
    label: 'engine, local', color: 'var(--pd-kv)', dash: '',
    meaning: 'vllm:prefix_cache_hits / queries: tokens found in the instance’s own cache, of all tokens looked up. Lookups of preempted requests are not counted.',
  },
  'engine-external': {
    label: 'engine, external', color: 'var(--pd-phase-kv-wait)', dash: '6 3',
    meaning: 'vllm:external_prefix_cache_hits / queries: tokens that the KV connector offered, of those it was asked for. On decode instances that is what prefill handed over.',
  },
  'by-source': {
    label: 'prompt by source', color: 'var(--pd-phase-handoff)', dash: '2 3',
    meaning: 'vllm:prompt_tokens_by_source: prompt tokens not computed here (cache hit or transfer), of all prompt tokens.',
  },
  'prefill-cached-tokens': {
    label: 'cached_tokens, P', color: 'var(--pd-role-prefill)', dash: '8 3 2 3',
    meaning: 'usage.prompt_tokens_details.cached_tokens of the prefill legs’ answers, of their prompt tokens. Absent without --enable-prompt-tokens-details.',
  },
  'decode-cached-tokens': {
    label: 'cached_tokens, D', color: 'var(--pd-role-decode)', dash: '12 4',
    meaning: 'usage.prompt_tokens_details.cached_tokens of the decode legs’ answers. It counts what was pulled from prefill too: close to 100 % is normal under P/D.',
  },
  index: {
    label: 'pdscope’s index', color: 'var(--pd-accent)', dash: '4 2',
    meaning: 'Prompt tokens that pdscope’s own index, built from KV events, held on the chosen instance when the request was scheduled. As good as the streams it rests on. A sample where fewer requests are named than there were: those whose tokens routing by prefix had, or else those explained (at most 10 a second).',
  },
};
