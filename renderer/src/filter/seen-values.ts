import { indexFields, type FilterField } from '#shared/filter/field.ts';

/** Rows looked at; the newest ones, because a suggestion must not cost a frame. */
const MOST_ROWS = 2000;
const MOST_VALUES = 40;

/** Values of a field in the newest rows, most frequent first. Numbers only where they are names (status, rank). */
export function collectSeenValues<Row>(rows: readonly Row[], fields: readonly FilterField<Row>[], key: string): readonly string[] {
  const field = indexFields(fields).get(key);
  if (field === undefined || field.type === 'boolean' || field.type === 'numbers') return [];
  if (field.type === 'number' && field.hasClasses !== true) return [];
  const counts = new Map<string, number>();
  for (const row of rows.slice(-MOST_ROWS)) {
    const value = field.get(row);
    for (const one of typeof value === 'object' ? value : [value]) {
      if (one !== undefined) counts.set(String(one), (counts.get(String(one)) ?? 0) + 1);
    }
  }
  return [...counts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, MOST_VALUES)
    .map(([value]) => value);
}
