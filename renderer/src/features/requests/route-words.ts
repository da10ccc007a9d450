/** The route of a request in few words: `E ×12 → P0/1 → D2`. Pure. */
import type { RouteStep } from '#shared/request.ts';
import { ROLE_PREFIX } from '#shared/state.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import { rankedName } from '../../ui/ranked-name.ts';

const LETTER: Partial<Readonly<Record<LegKind, string>>> = { encode: ROLE_PREFIX.encode, prefill: ROLE_PREFIX.prefill, decode: ROLE_PREFIX.decode };

export interface RoutePart {
  readonly kind: LegKind;
  /** `P0/1`; several legs of one kind in a row are one part: `E0 ×3`, or `E ×12` over several instances. */
  readonly label: string;
  /** Every leg by name, for hovers. */
  readonly title: string;
}

/** Of more instances than this the role's letter is shown; the hover has the names. */
const MOST_NAMED = 1;

/** Steps in order; legs of one kind that follow each other (one per media item) become one part. */
export function routeParts(route: readonly RouteStep[]): readonly RoutePart[] {
  const groups: RouteStep[][] = [];
  for (const step of route) {
    const last = groups.at(-1);
    if (last?.[0]?.kind === step.kind) last.push(step);
    else groups.push([step]);
  }
  return groups.flatMap((steps) => {
    const [first] = steps;
    if (first === undefined) return [];
    const counts = new Map<string, number>();
    for (const step of steps) {
      const name = rankedName(step.name, step.rank);
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    const names = [...counts.keys()];
    const who = names.length > MOST_NAMED ? (LETTER[first.kind] ?? first.kind) : names.join(', ');
    return [{
      kind: first.kind,
      label: steps.length === 1 ? who : `${who} ×${steps.length}`,
      title: steps.length === 1 ? `${first.kind} leg on ${who}` : `${steps.length} ${first.kind} legs: ${[...counts].map(([name, count]) => `${name} ×${count}`).join(', ')}`,
    }];
  });
}

/** `E0 ×3 → P0/1 → D2`; undefined without a leg. */
export function routeText(route: readonly RouteStep[]): string | undefined {
  return route.length === 0 ? undefined : routeParts(route).map((part) => part.label).join(' → ');
}
