/**
 * The newest `capacity` rows of a channel, in order of their running number, each number once. A row whose number is
 * known replaces the old one in place (a request that got further); one that is older than everything kept in a full
 * buffer is ignored, because it would be the next to go.
 */
interface NumberedRow {
  /** Running number since engine start. */
  readonly n: number;
}

export class RowBuffer<Row extends NumberedRow> {
  readonly capacity: number;
  #rows: Row[] = [];
  /** Index of the oldest kept row; rows before it are gone. Moving it is cheaper than shifting the array for each row. */
  #head = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  get size(): number {
    return this.#rows.length - this.#head;
  }

  /** Inserts or replaces. Answers how many rows were new. */
  upsert(rows: readonly Row[]): number {
    let added = 0;
    for (const row of rows) added += this.#upsertOne(row) ? 1 : 0;
    this.#trim();
    return added;
  }

  /** Forgets the rows with these running numbers; unknown numbers are ignored. */
  remove(numbers: readonly number[]): void {
    const gone = new Set(numbers);
    this.#rows = this.#rows.slice(this.#head).filter((row) => !gone.has(row.n));
    this.#head = 0;
  }

  clear(): void {
    this.#rows = [];
    this.#head = 0;
  }

  /** A copy, oldest first. */
  toArray(): readonly Row[] {
    return this.#rows.slice(this.#head);
  }

  #upsertOne(row: Row): boolean {
    const last = this.#rows.at(-1);
    if (last === undefined || this.size === 0 || row.n > last.n) {
      this.#rows.push(row);
      return true;
    }
    const index = this.#lowerBound(row.n);
    if (this.#rows[index]?.n === row.n) {
      this.#rows[index] = row;
      return false;
    }
    if (index === this.#head && this.size >= this.capacity) return false;
    this.#rows.splice(index, 0, row);
    return true;
  }

  /** Index of the first kept row whose number is at least `n`. */
  #lowerBound(n: number): number {
    let low = this.#head;
    let high = this.#rows.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const row = this.#rows[middle];
      if (row !== undefined && row.n < n) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #trim(): void {
    this.#head += Math.max(0, this.size - this.capacity);
    if (this.#head > this.capacity) {
      this.#rows = this.#rows.slice(this.#head);
      this.#head = 0;
    }
  }
}
