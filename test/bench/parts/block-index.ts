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
    const asked: Cell[][] = [];
    for (const blocksPerEvent of BLOCKS_PER_EVENT) {
      const results: Record<IndexDepth, IndexFigures[]> = { decode: [], index: [], stream: [] };
      for (let round = 0; round < rounds; round += 1) {
        results.decode.push(await measureIndex('decode', blocksPerEvent));
        results.index.push(await measureIndex('index', blocksPerEvent));
        results.stream.push(await measureIndex('stream', blocksPerEvent));
      }
      const [decode, index, stream] = [medianOf(results.decode), medianOf(results.index), medianOf(results.stream)];
      stored.push([String(blocksPerEvent), decode.perCpuSecond, index.perCpuSecond, stream.perCpuSecond, 1e6 / stream.perCpuSecond, decode.perSecond, index.perSecond, stream.perSecond, stream.rssBytes / 1e6]);
      asked.push([
        String(blocksPerEvent), index.held, index.rssBytes / 1e6, index.startRssBytes / 1e6, index.bytesPerBlock,
        index.prefixP50Ms, index.prefixP99Ms, index.prefixClockP99Ms, index.explainP50Ms, index.countMs,
      ]);
    }
    const what = `${BLOCKS.toLocaleString('en-US')} blocks of 16 tokens, ${STREAMS} streams`;
    printTable(
      `Block stores: ${what}; per second of CPU time, all threads, and per second by the clock (aim: 500,000); load of the machine ${os.loadavg()[0]?.toFixed(1)}`,
      ['blocks per event', 'decoded', '+ indexed', 'whole stream', 'us/block', 'clock: decoded', '+ indexed', 'whole stream', 'RSS MB'],
      stored,
    );
    printTable(
      `Full index: ${what} (aims: under 600 MB, prefix under 1 ms); queries in CPU time but for the clock column`,
      ['blocks per event', 'held', 'RSS MB', 'at start', 'bytes/block', 'prefix 8k p50 ms', 'p99 ms', 'clock p99 ms', 'explain p50 ms', 'count tree ms'],
      asked,
    );
  },
};

/** Stores distinct blocks, `blocksPerEvent` to an event. */
async function measureIndex(depth: IndexDepth, blocksPerEvent: number): Promise<IndexFigures> {
  const child = fork(fileURLToPath(new URL('./index-process.js', import.meta.url)), [depth, blocksPerEvent, STREAMS, BLOCKS].map(String));
  const [figures] = (await once(child, 'message')) as [IndexFigures];
  return figures;
}
