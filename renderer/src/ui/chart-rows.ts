/** Points over time as charts need them: evenly spaced, aligned, gaps kept as gaps. */
export interface SeriesWindow {
  readonly nowUnixMs: number;
  readonly windowS: number;
  readonly stepS: number;
}

/** Values at even steps over the window, oldest first; undefined where nothing was observed. Points outside are left out. */
export function evenly<Point extends { readonly atUnixMs: number }>(
  points: readonly Point[],
  { nowUnixMs, windowS, stepS }: SeriesWindow,
  pick: (point: Point) => number | undefined,
): readonly (number | undefined)[] {
  const steps = Math.round(windowS / stepS);
  const values = Array.from<number | undefined>({ length: steps });
  const startUnixMs = nowUnixMs - windowS * 1000;
  for (const point of points) {
    const index = Math.floor((point.atUnixMs - startUnixMs) / (stepS * 1000));
    if (index >= 0 && index < steps) values[index] = pick(point);
  }
  return values;
}

/** One moment of a chart: its time and one value per line. */
export interface ChartRow {
  readonly atUnixMs: number;
  readonly [line: string]: number | undefined;
}

/** Places of values that have none before and none after them: a line alone would not show them. */
export function loneValues(rows: readonly ChartRow[], line: string): ReadonlySet<number> {
  const lone = new Set<number>();
  for (const [index, row] of rows.entries()) {
    if (row[line] !== undefined && rows[index - 1]?.[line] === undefined && rows[index + 1]?.[line] === undefined) lone.add(index);
  }
  return lone;
}
