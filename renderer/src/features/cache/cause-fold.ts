/** Which causes are shown at once: the few that an engineer can act on, the tail summed up. */
import type { MissCause } from '#shared/cache.ts';

const MOST = 6;
/** Smaller ones are part of the tail, however few there are. */
const LEAST_SHARE = 0.01;

/** Causes are in order, the heaviest first. A tail of one is no tail. */
export function foldCauses(causes: readonly MissCause[]): { readonly shown: readonly MissCause[]; readonly folded: readonly MissCause[] } {
  const heavy = causes.findIndex(({ share }, at) => at >= MOST || share < LEAST_SHARE);
  const count = heavy < 0 || causes.length - heavy < 2 ? causes.length : heavy;
  return { shown: causes.slice(0, count), folded: causes.slice(count) };
}
