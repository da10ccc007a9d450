/** Blocks from frames to the index, and queries of a full index, each measurement in a fresh process. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import { fileURLToPath } from 'node:url';
import { printTable, type Cell } from '../figures.ts';
import { medianOf, type Part } from '../part.ts';

const BLOCKS_PER_EVENT = [1, 4, 16, 64];
const STREAMS = 32;
const BLOCKS = 1_000_000;

/** How far blocks go: `decode` to events, `index` to the index, `stream` through whole streams of the engine. */
export type IndexDepth = 'decode' | 'index' | 'stream';

export interface IndexFigures {
  /** Blocks a second of CPU time, all threads, garbage collection included. */
  readonly perCpuSecond: number;
  /** Blocks a second by the clock. */
  readonly perSecond: number;
  readonly held: number;
  readonly startRssBytes: number;
  /** With the index full, garbage of decoding included. */
  readonly rssBytes: number;
  readonly bytesPerBlock: number | undefined;
  /** After a collection: objects, and typed arrays, which the index is made of; both by block, the process' own few MB included. */
  readonly heapBytes?: number | undefined;
  readonly bufferBytes?: number | undefined;
  readonly keptPerBlock?: number | undefined;
  /** Blocks a second into the full index: each displaces one, and another is forgotten. */
  readonly fullPerCpuSecond?: number | undefined;
  readonly fullPerSecond?: number | undefined;
  /** After those. */
  readonly laterRssBytes?: number | undefined;
  /** Who holds a prompt of 8,193 tokens that every stream holds; CPU time. */
  readonly prefixP50Ms?: number | undefined;
  readonly prefixP99Ms?: number | undefined;
  /** The same by the clock. */
  readonly prefixClockP99Ms?: number | undefined;
  readonly explainP50Ms?: number | undefined;
  /** Held blocks below every node of the tree, for one page of it; runs in slices. */
  readonly countMs?: number | undefined;
}

export const indexPart: Part = {
  name: 'index',
  run: async ({ rounds }) => {
    const stored: Cell[][] = [];
    const displaced: Cell[][] = [];
    const kept: Cell[][] = [];
    const asked: Cell[][] = [];
    for (const blocksPerEvent of BLOCKS_PER_EVENT) {
      const results: Record<IndexDepth, IndexFigures[]> = { decode: [], index: [], stream: [] };
      for (let round = 0; round < rounds; round += 1) {
        results.decode.push(await measureIndex('decode', blocksPerEvent));
        results.index.push(await measureIndex('index', blocksPerEvent));
        results.stream.push(await measureIndex('stream', blocksPerEvent));
      }
      const [decode, index, stream] = [medianOf(results.decode), medianOf(results.index), medianOf(results.stream)];
      stored.push([String(blocksPerEvent), decode.perCpuSecond, index.perCpuSecond, stream.perCpuSecond, 1e6 / stream.perCpuSecond, decode.perSecond, index.perSecond, stream.perSecond]);
      displaced.push([String(blocksPerEvent), index.fullPerCpuSecond, stream.fullPerCpuSecond, 1e6 / (stream.fullPerCpuSecond ?? Number.NaN), index.fullPerSecond, stream.fullPerSecond]);
      kept.push([
        String(blocksPerEvent), index.held, index.rssBytes / 1e6, index.startRssBytes / 1e6, index.bytesPerBlock,
        megabytes(index.heapBytes), megabytes(index.bufferBytes), index.keptPerBlock, megabytes(index.laterRssBytes), stream.rssBytes / 1e6, megabytes(stream.laterRssBytes),
      ]);
      asked.push([
        String(blocksPerEvent), index.prefixP50Ms, index.prefixP99Ms, index.prefixClockP99Ms, index.explainP50Ms, index.countMs,
      ]);
    }
    const what = `${BLOCKS.toLocaleString('en-US')} blocks of 16 tokens, ${STREAMS} streams`;
    printTable(
      `Block stores: ${what}; per second of CPU time, all threads, and per second by the clock (aim: 500,000); load of the machine ${os.loadavg()[0]?.toFixed(1)}`,
      ['blocks per event', 'decoded', '+ indexed', 'whole stream', 'us/block', 'clock: decoded', '+ indexed', 'whole stream'],
      stored,
    );
    printTable(
      'Block stores into that index, now full, history included: every store displaces a block and forgets another; per second of CPU time, and by the clock',
      ['blocks per event', 'decoded and indexed', 'whole stream', 'us/block', 'clock: decoded and indexed', 'whole stream'],
      displaced,
    );
    printTable(
      'Memory of the full index (aim: RSS under 600 MB); heap and buffers after a collection; later: after the stores that displaced',
      ['blocks per event', 'held', 'RSS MB', 'at start', 'bytes/block', 'heap MB', 'buffers MB', 'kept bytes/block', 'RSS MB later', 'whole stream: RSS MB', 'later'],
      kept,
    );
    printTable(
      `Queries of the full index: who holds a prompt of 8k tokens that all of ${STREAMS} streams hold (aim: under 1 ms), and why it missed; CPU time but for the clock column`,
      ['blocks per event', 'prefix 8k p50 ms', 'p99 ms', 'clock p99 ms', 'explain p50 ms', 'count tree ms'],
      asked,
    );
  },
};

function megabytes(bytes: number | undefined): number | undefined {
  return bytes === undefined ? undefined : bytes / 1e6;
}

/** Stores distinct blocks, `blocksPerEvent` to an event. */
async function measureIndex(depth: IndexDepth, blocksPerEvent: number): Promise<IndexFigures> {
  const child = fork(fileURLToPath(new URL('./index-process.js', import.meta.url)), [depth, blocksPerEvent, STREAMS, BLOCKS].map(String), { execArgv: ['--expose-gc'] });
  const [figures] = (await once(child, 'message')) as [IndexFigures];
  return figures;
}
