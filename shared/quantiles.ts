/** A summary of one distribution over one window. Absent distributions are `undefined`, never zeros. */
export interface Quantiles {
  /** Samples in the window. */
  readonly n: number;
  /** Length of the window, seconds. */
  readonly windowS: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}
