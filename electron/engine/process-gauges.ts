/** pdscope's own use of the machine: memory, share of a core, and how late the event loop ran. */
import { monitorEventLoopDelay, performance, type IntervalHistogram } from 'node:perf_hooks';
import type { EngineState } from '#shared/state.ts';

/** Resolution of the loop monitor; what it reports includes one such interval, which is taken off. */
const LOOP_RESOLUTION_MS = 10;

export class ProcessGauges {
  readonly #loop: IntervalHistogram = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  #cpuAt = process.cpuUsage();
  #atMs = performance.now();
  #last: EngineState['process'] = { rssBytes: 0, heapBytes: 0, cpu: 0, loopDelayP99Ms: 0 };

  constructor() {
    this.#loop.enable();
    this.sample();
  }

  /** Takes the interval since the last call. Called by the engine's one-second sampler. */
  sample(): void {
    const nowMs = performance.now();
    const used = process.cpuUsage(this.#cpuAt);
    const elapsedMs = nowMs - this.#atMs;
    const { rss, heapUsed } = process.memoryUsage();
    const p99Ms = this.#loop.percentile(99) / 1e6;
    this.#last = {
      rssBytes: rss,
      heapBytes: heapUsed,
      cpu: elapsedMs > 0 ? (used.user + used.system) / 1000 / elapsedMs : 0,
      loopDelayP99Ms: Number.isFinite(p99Ms) ? Math.max(0, p99Ms - LOOP_RESOLUTION_MS) : 0,
    };
    this.#loop.reset();
    this.#cpuAt = process.cpuUsage();
    this.#atMs = nowMs;
  }

  /** Of the last whole interval. */
  read(): EngineState['process'] {
    return this.#last;
  }

  close(): void {
    this.#loop.disable();
  }
}
