/** The block index alone, each measurement in a fresh process. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface IndexFigures {
  /** Blocks a second, frames decoded only. */
  readonly decodedPerSecond: number;
  /** Blocks a second, frames decoded, sequence checked, blocks indexed; one thread. */
  readonly indexedPerSecond: number;
  readonly held: number;
  readonly nodes: number;
  readonly startRssBytes: number;
  /** With the index full, garbage of decoding included. */
  readonly rssBytes: number;
  readonly bytesPerBlock: number;
  /** Who holds a prompt of 8,193 tokens that every stream holds. */
  readonly prefixP50Ms: number;
  readonly prefixP99Ms: number;
  readonly explainP50Ms: number;
  /** Held blocks below every node of the tree, for one page of it; runs in slices. */
  readonly countMs: number;
}

/** Stores `blocks` distinct blocks of 16 tokens on `streams` streams, `blocksPerEvent` to an event. */
export async function measureIndex(blocksPerEvent: number, streams: number, blocks: number): Promise<IndexFigures> {
  const child = fork(fileURLToPath(new URL('./index-process.js', import.meta.url)), [blocksPerEvent, streams, blocks].map(String));
  const [figures] = (await once(child, 'message')) as [IndexFigures];
  return figures;
}
