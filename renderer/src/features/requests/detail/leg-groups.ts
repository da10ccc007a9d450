/** Legs or decisions of one kind that are too many to read one by one. Pure. */
import type { LegView } from '#shared/request.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import { formatMs } from '../../../ui/format.ts';

/** More of one kind in a row than this are folded. */
const MOST_OPEN = 4;

export interface Run<T> {
  readonly kind: LegKind;
  /** With their places in the whole list. */
  readonly items: readonly { readonly item: T; readonly index: number }[];
  readonly isFolded: boolean;
}

/** Neighbours of one kind together; long runs are to be folded. */
export function runsOf<T extends { readonly kind: LegKind }>(items: readonly T[]): readonly Run<T>[] {
  const runs: { kind: LegKind; items: { item: T; index: number }[] }[] = [];
  for (const [index, item] of items.entries()) {
    const last = runs.at(-1);
    if (last?.kind === item.kind) last.items.push({ item, index });
    else runs.push({ kind: item.kind, items: [{ item, index }] });
  }
  return runs.map((run) => ({ ...run, isFolded: run.items.length > MOST_OPEN }));
}

/** `24 encode legs: 23 ok, 1 error; 12.0 to 80.1 ms`. */
export function legsSummary(legs: readonly LegView[]): string {
  const outcomes = (['ok', 'running', 'error', 'aborted'] as const)
    .map((outcome) => [outcome, legs.filter((leg) => leg.outcome === outcome).length] as const)
    .filter(([, count]) => count > 0)
    .map(([outcome, count]) => `${count} ${outcome}`);
  const took = legs.flatMap((leg) => (leg.endMs === undefined ? [] : [leg.endMs - leg.sentMs]));
  const range = took.length === 0 ? '' : `; ${formatMs(Math.min(...took))} to ${formatMs(Math.max(...took))} ms`;
  return `${legs.length} ${legs[0]?.kind ?? ''} legs: ${outcomes.join(', ')}${range}`;
}

/** `E0 ×12, E1 ×12`: who was chosen how often, most often first. */
export function chosenSummary(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => `${name} ×${count}`).join(', ');
}
