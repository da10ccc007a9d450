/**
 * Inter-token latency as `vllm bench serve` measures it: the gap between consecutive SSE messages as they arrive. Of k
 * events that arrive in one write, the first has the gap and the others have 0, as that client reads them.
 * The end of a complete stream is left out: `[DONE]`, and before it the usage message where usage was reported; the
 * client of the benchmark does not count these either (vllm/benchmarks/lib/endpoint_request_func.py).
 */
import { MAX_CHUNKS, type ChunkLog } from './chunk-log.ts';

/** Messages at the end of a stream that are no output: at most the usage message and `[DONE]`. */
export const MAX_TRAILING = 2;

/** Takes gaps from a growing log once each, holding back the last ones until the end tells what they were. */
export class GapReader {
  #next = 0;
  #lastEventMs: number | undefined;
  readonly #heldBack: number[] = [];

  /** True when `log` is about to overwrite entries that were not read. */
  isBehind(log: ChunkLog): boolean {
    return log.total - this.#next >= MAX_CHUNKS;
  }

  /** Reads what is new and hands out the gaps that are certainly between output messages. */
  read(log: ChunkLog, onGap: (ms: number) => void): void {
    for (let index = Math.max(this.#next, log.first); index < log.total; index += 1) {
      const events = log.events(index);
      if (events === 0) continue;
      const atMs = log.timeMs(index);
      if (this.#lastEventMs !== undefined) this.#push(atMs - this.#lastEventMs, onGap);
      for (let more = 1; more < events; more += 1) this.#push(0, onGap);
      this.#lastEventMs = atMs;
    }
    this.#next = log.total;
  }

  /** After the last `read`: hands out what was held back, except the last `trailing` messages. */
  finish(trailing: number, onGap: (ms: number) => void): void {
    const held = this.#heldBack.splice(0);
    for (const gap of held.slice(0, Math.max(0, held.length - trailing))) onGap(gap);
  }

  #push(gap: number, onGap: (ms: number) => void): void {
    this.#heldBack.push(gap);
    if (this.#heldBack.length > MAX_TRAILING) onGap(this.#heldBack.shift() ?? 0);
  }
}

/** Median gap of what `log` keeps, nearest rank; undefined with fewer than two output messages. */
export function medianGapMs(log: ChunkLog, trailing: number): number | undefined {
  const gaps: number[] = [];
  const reader = new GapReader();
  reader.read(log, (gap) => gaps.push(gap));
  reader.finish(trailing, (gap) => gaps.push(gap));
  if (gaps.length === 0) return undefined;
  gaps.sort((a, b) => a - b);
  return gaps[Math.ceil(gaps.length / 2) - 1];
}
