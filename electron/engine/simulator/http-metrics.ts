/** The FastAPI instrumentator's families, as vLLM's API server exposes them beside the engine's. */
import type { Histogram, MetricsRegistry, Counter } from './metrics-registry.ts';

const DURATION_BOUNDS = [0.1, 0.5, 1];
const HIGHR_BOUNDS = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
];
/** Handlers that the instrumentator leaves out. */
const EXCLUDED = new Set(['/metrics', '/health', '/load', '/ping', '/version', '/server_info']);

export interface HttpObservation {
  readonly method: string;
  /** Route path; unknown paths are `none`. */
  readonly handler: string;
  readonly status: number;
  readonly seconds: number;
}

export class HttpMetrics {
  readonly #registry: MetricsRegistry;
  readonly #totals = new Map<string, Counter>();
  readonly #durations = new Map<string, Histogram>();
  readonly #highr: Histogram;

  constructor(registry: MetricsRegistry) {
    this.#registry = registry;
    this.#highr = registry.histogram(
      'http_request_duration_highr_seconds',
      'Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. ',
      {},
      HIGHR_BOUNDS,
    );
  }

  observe({ method, handler, status, seconds }: HttpObservation): void {
    if (EXCLUDED.has(handler)) return;
    const statusClass = `${Math.floor(status / 100)}xx`;
    this.#total(handler, method, statusClass).inc();
    this.#duration(handler, method).observe(seconds);
    this.#highr.observe(seconds);
  }

  #total(handler: string, method: string, status: string): Counter {
    const key = `${handler} ${method} ${status}`;
    let counter = this.#totals.get(key);
    if (counter === undefined) {
      const labels = { handler, method, status };
      counter = this.#registry.counter('http_requests_total', 'Total number of requests by method, status and handler.', labels);
      this.#totals.set(key, counter);
    }
    return counter;
  }

  #duration(handler: string, method: string): Histogram {
    const key = `${handler} ${method}`;
    let histogram = this.#durations.get(key);
    if (histogram === undefined) {
      histogram = this.#registry.histogram(
        'http_request_duration_seconds',
        'Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. ',
        { handler, method },
        DURATION_BOUNDS,
      );
      this.#durations.set(key, histogram);
    }
    return histogram;
  }
}
