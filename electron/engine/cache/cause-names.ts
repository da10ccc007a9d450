/** Titles and examples of causes, with the text of both sides, as far as an instance decodes it in time. */
import type { MissCause, MissExample } from '#shared/cache.ts';
import { divergenceTitle } from './cause-title.ts';
import type { DivergencePlace } from './kept-report.ts';
import type { GatheredCause } from './miss-summary.ts';
import type { TokenText } from './token-text.ts';

/** Causes that are given words of their own, the heaviest. */
const MAX_NAMED = 12;

interface Sides {
  readonly lead: string | undefined;
  readonly asked: string | undefined;
  readonly held: string | undefined;
}

export async function namedCauses(causes: readonly GatheredCause[], text: TokenText): Promise<MissCause[]> {
  const places = causes.filter(({ shown }) => shown.length > 0).slice(0, MAX_NAMED).flatMap(({ shown }) => shown.map(({ place }) => place));
  const texts = await text.decode(places.flatMap(({ lead, asked, held }) => [{ tokens: lead }, { tokens: asked }, { tokens: held }]));
  const sidesOf = new Map(places.map((place, at): readonly [DivergencePlace, Sides] => [
    place, { lead: place.lead.length === 0 ? '' : texts[at * 3], asked: texts[at * 3 + 1], held: texts[at * 3 + 2] },
  ]));
  return causes.map(({ isOnePlace, shown, ...cause }) => {
    const examples: MissExample[] = [];
    let title: string | undefined;
    for (const { id, n, place } of shown) {
      const { lead, asked, held } = sidesOf.get(place) ?? {};
      if (asked === undefined || held === undefined) continue;
      examples.push({ id, n, token: place.token, asked, held });
      if (lead !== undefined) title ??= divergenceTitle(isOnePlace ? place.token : undefined, { lead, asked, held, where: place.where });
    }
    return { ...cause, ...(title !== undefined && { title }), ...(examples.length > 0 && { examples }) };
  });
}
