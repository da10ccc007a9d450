/** Two-leg requests at fixed concurrency, and concurrent SSE streams. */
import { median, quantile } from './figures.ts';
import type { Target } from './target.ts';

export interface RequestFigures {
  readonly perSecond: number;
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
  /** CPU of the measured process per request, microseconds. */
  readonly cpuMicros: number | undefined;
}

/** `concurrency` clients send non-streaming completions back to back for `seconds`. */
export async function measureRequests(target: Target, concurrency: number, seconds: number): Promise<RequestFigures> {
  const connections = await Promise.all(Array.from({ length: concurrency }, async () => await target.connect()));
  const samples: number[] = [];
  const run = async (untilMs: number, keep: boolean): Promise<void> => {
    await Promise.all(
      connections.map(async (connection) => {
        while (performance.now() < untilMs) {
          const { totalMs } = await connection.complete();
          if (keep) samples.push(totalMs);
        }
      }),
    );
  };
  await run(performance.now() + Math.min(1000, seconds * 300), false);
  await target.cpuSinceLast();
  const startedMs = performance.now();
  await run(startedMs + seconds * 1000, true);
  const elapsedS = (performance.now() - startedMs) / 1000;
  const cpu = await target.cpuSinceLast();
  for (const connection of connections) connection.close();
  return {
    perSecond: samples.length / elapsedS,
    p50Ms: median(samples),
    p99Ms: quantile(samples, 0.99),
    cpuMicros: cpu === undefined ? undefined : cpu / samples.length,
  };
}

export interface StreamFigures {
  readonly chunks: number;
  /** Streams that ended without `[DONE]` or with fewer chunks than were sent. */
  readonly incomplete: number;
  readonly ttftP50Ms: number | undefined;
  /** Time a chunk was under way from the decode mock to the client. */
  readonly chunkP50Ms: number | undefined;
  readonly chunkP99Ms: number | undefined;
  /** CPU of the measured process per chunk, microseconds. */
  readonly cpuMicros: number | undefined;
}

const SENT_AT = '"t":';

/** `count` clients stream one answer of `tokens` chunks each, all at once. */
export async function measureStreams(target: Target, count: number, tokens: number): Promise<StreamFigures> {
  const connections = await Promise.all(Array.from({ length: count }, async () => await target.connect()));
  const underWayMs: number[] = [];
  const ttftMs: number[] = [];
  let chunks = 0;
  let incomplete = 0;
  await target.cpuSinceLast();
  await Promise.all(
    connections.map(async (connection) => {
      const seen = { chunks: 0, isDone: false };
      const answer = await connection.stream((data, atMs) => {
        for (const sentAtMs of sendTimes(data, seen)) underWayMs.push(atMs - sentAtMs);
      });
      ttftMs.push(answer.ttftMs);
      chunks += seen.chunks;
      if (!seen.isDone || seen.chunks < tokens) incomplete += 1;
    }),
  );
  const cpu = await target.cpuSinceLast();
  for (const connection of connections) connection.close();
  return {
    chunks,
    incomplete,
    ttftP50Ms: median(ttftMs),
    chunkP50Ms: median(underWayMs),
    chunkP99Ms: quantile(underWayMs, 0.99),
    cpuMicros: cpu === undefined ? undefined : cpu / Math.max(1, chunks),
  };
}

export interface SteadyFigures {
  readonly chunks: number;
  readonly incomplete: number;
  readonly ttftP50Ms: number | undefined;
  readonly ttftP99Ms: number | undefined;
  readonly chunkP50Ms: number | undefined;
  readonly chunkP99Ms: number | undefined;
}

/**
 * `count` clients that stream answers of `tokens` chunks for `seconds`, one after the other, begun evenly over the length
 * of one: what a server sees that is in use, without the crowd of `measureStreams` at its start. The first answers are
 * not measured.
 */
export async function measureSteadyStreams(target: Target, count: number, shape: { readonly tokens: number; readonly answerMs: number; readonly seconds: number }): Promise<SteadyFigures> {
  const { tokens, answerMs, seconds } = shape;
  const connections = await Promise.all(Array.from({ length: count }, async () => await target.connect()));
  const underWayMs: number[] = [];
  const ttftMs: number[] = [];
  let incomplete = 0;
  const startedMs = performance.now();
  const fromMs = startedMs + answerMs;
  const untilMs = fromMs + seconds * 1000;
  await Promise.all(
    connections.map(async (connection, at) => {
      await new Promise((resolve) => {
        setTimeout(resolve, (at / count) * answerMs);
      });
      while (performance.now() < untilMs) {
        const sentMs = performance.now();
        const seen = { chunks: 0, isDone: false };
        const answer = await connection.stream((data, atMs) => {
          for (const sentAtMs of sendTimes(data, seen)) if (atMs >= fromMs && atMs < untilMs) underWayMs.push(atMs - sentAtMs);
        });
        if (sentMs >= fromMs) ttftMs.push(answer.ttftMs);
        if (!seen.isDone || seen.chunks < tokens) incomplete += 1;
      }
    }),
  );
  for (const connection of connections) connection.close();
  return {
    chunks: underWayMs.length,
    incomplete,
    ttftP50Ms: median(ttftMs),
    ttftP99Ms: quantile(ttftMs, 0.99),
    chunkP50Ms: median(underWayMs),
    chunkP99Ms: quantile(underWayMs, 0.99),
  };
}

/** When the chunks in a piece of an answer were sent; counts them, and notes the end. */
function sendTimes(data: Buffer, seen: { chunks: number; isDone: boolean }): number[] {
  const text = data.toString('latin1');
  const times: number[] = [];
  for (let at = text.indexOf(SENT_AT); at !== -1; at = text.indexOf(SENT_AT, at + 1)) times.push(Number.parseFloat(text.slice(at + SENT_AT.length, at + SENT_AT.length + 16)));
  seen.chunks += times.length;
  if (text.includes('[DONE]')) seen.isDone = true;
  return times;
}
