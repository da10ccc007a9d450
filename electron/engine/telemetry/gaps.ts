/**
 * Inter-token latency as `vllm bench serve` measures it: the gap between consecutive SSE messages as they arrive. Of k
 * events that arrive in one write, the first has the gap and the others have 0, as that client reads them.
 * The end of a complete stream is left out: `[DONE]`, and before it the usage message where usage was reported; the
 * client of the benchmark does not count these either (vllm/benchmarks/lib/endpoint_request_func.py).
 */
import { MAX_CHUNKS, type ChunkLog } from './chunk-log.ts';

/** Where gaps go. */
export interface GapSink {
  record(ms: number): void;
}

/** Takes gaps from a growing log once each, holding back the last ones until the end tells what they were. */
export class GapReader {
  #next = 0;
  #lastEventMs: number | undefined;
  /** The last two gaps, older first; -1 = none. Fields instead of an array: this runs for every chunk. */
  #older = -1;
  #newer = -1;

  /** True when `log` is about to overwrite entries that were not read. */
  isBehind(log: ChunkLog): boolean {
    return log.total - this.#next >= MAX_CHUNKS;
  }

  /** Reads what is new and hands out the gaps that are certainly between output messages. */
  read(log: ChunkLog, sink: GapSink): void {
    const { total } = log;
    for (let index = Math.max(this.#next, log.first); index < total; index += 1) {
      const events = log.events(index);
      if (events === 0) continue;
      const atMs = log.timeMs(index);
      if (this.#lastEventMs !== undefined) this.#push(atMs - this.#lastEventMs, sink);
      for (let more = 1; more < events; more += 1) this.#push(0, sink);
      this.#lastEventMs = atMs;
    }
    this.#next = total;
  }

  /** After the last `read`: hands out what was held back, except the last `trailing` (0 to 2) messages. */
  finish(trailing: number, sink: GapSink): void {
    const held = [this.#older, this.#newer].filter((gap) => gap >= 0);
    for (const gap of held.slice(0, Math.max(0, held.length - trailing))) sink.record(gap);
    this.#older = -1;
    this.#newer = -1;
  }

  #push(gap: number, sink: GapSink): void {
    if (this.#older >= 0) sink.record(this.#older);
    this.#older = this.#newer;
    this.#newer = gap;
  }
}

/** Median gap of what `log` keeps, nearest rank; undefined with fewer than two output messages. */
export function medianGapMs(log: ChunkLog, trailing: number): number | undefined {
  const gaps: number[] = [];
  const sink: GapSink = { record: (gap) => gaps.push(gap) };
  const reader = new GapReader();
  reader.read(log, sink);
  reader.finish(trailing, sink);
  if (gaps.length === 0) return undefined;
  gaps.sort((a, b) => a - b);
  return gaps[Math.ceil(gaps.length / 2) - 1];
}
