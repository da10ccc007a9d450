/** Statistics and the console table of the benchmark. */

/** Nearest-rank quantile of unsorted samples; `undefined` without samples. */
export function quantile(samples: readonly number[], q: number): number | undefined {
  if (samples.length === 0) return undefined;
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))];
}

export function median(samples: readonly number[]): number | undefined {
  return quantile(samples, 0.5);
}

export type Cell = string | number | undefined;

function text(cell: Cell): string {
  if (cell === undefined) return '-';
  if (typeof cell === 'string') return cell;
  if (Number.isInteger(cell) || Math.abs(cell) >= 1000) return Math.round(cell).toLocaleString('en-US');
  return cell.toFixed(Math.abs(cell) < 10 ? 2 : 1);
}

/** Prints rows under a title, columns aligned; numbers right. */
export function printTable(title: string, columns: readonly string[], rows: readonly (readonly Cell[])[]): void {
  const cells = rows.map((row) => row.map(text));
  const widths = columns.map((column, i) => Math.max(column.length, ...cells.map((row) => row[i]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join('  ');
  console.log(`\n${title}`);
  console.log(line(columns));
  console.log(widths.map((width) => '-'.repeat(width)).join('  '));
  for (const row of cells) console.log(line(row));
}
