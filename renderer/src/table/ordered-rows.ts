/**
 * Finding rows in arrays that are sorted by a running number, oldest first. All are logarithmic: they run for each
 * visible row while thousands arrive per second.
 */

/** The running number of a row; grows with time and never changes. */
export type GetOrder<Row> = (row: Row) => number;

/** Index of the first row whose number is at least `order`; `rows.length` when there is none. */
export function lowerBound<Row>(rows: readonly Row[], order: number, getOrder: GetOrder<Row>): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const row = rows[middle];
    if (row !== undefined && getOrder(row) < order) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The row with exactly this number. */
export function findByOrder<Row>(rows: readonly Row[], order: number, getOrder: GetOrder<Row>): Row | undefined {
  const row = rows[lowerBound(rows, order, getOrder)];
  return row !== undefined && getOrder(row) === order ? row : undefined;
}

/** How many rows are newer than `order`. */
export function countNewer<Row>(rows: readonly Row[], order: number, getOrder: GetOrder<Row>): number {
  return rows.length - lowerBound(rows, order + 1, getOrder);
}
