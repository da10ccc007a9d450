/**
 * What storing a batch will look for, read before any of it is stored. The tables of a full index are larger than every
 * cache, so each search waits for memory; searches that begin together wait together, one after the other each for itself.
 * Changes nothing, and may be wrong: what was not foreseen is waited for as before.
 */
import type { KvEvent, StoredEvent } from '../kv-events/kv-event.ts';
import type { BlockGraph } from './block-graph.ts';
import { ROOT } from './node-table.ts';
import { Probe } from './probe.ts';

export class Foresight {
  readonly #graph: BlockGraph;
  readonly #probe = new Probe();
  /** The last block of the event before: its hash, and the identity that its node will have. */
  #high = 0;
  #low = 0;
  #identity: number | undefined;

  constructor(graph: BlockGraph) {
    this.#graph = graph;
  }

  /** `stream`: its number. */
  expect(stream: number, events: readonly KvEvent[]): void {
    const { holdings, keepsContent } = this.#graph;
    let stores = 0;
    for (const event of events) {
      if (event.kind !== 'stored' && event.kind !== 'removed') continue;
      const { words } = event.hashes;
      for (let at = 0; at < words.length; at += 2) holdings.touch(stream, words[at] ?? 0, words[at + 1] ?? 0);
      if (event.kind === 'stored') stores += words.length / 2;
    }
    if (stores === 0) return;
    this.#graph.touchOldest(stores);
    this.#identity = undefined;
    if (keepsContent) for (const event of events) if (event.kind === 'stored') this.#expectContent(stream, event);
  }

  #expectContent(stream: number, event: StoredEvent): void {
    const { nodes } = this.#graph;
    const { hashes: { words }, blockSize, tokens } = event;
    let identity = this.#parentIdentity(stream, event);
    if (identity === undefined || blockSize === 0 || tokens.length !== (words.length / 2) * blockSize) return;
    for (let offset = 0; offset < tokens.length; offset += blockSize) {
      this.#probe.set(tokens, offset, blockSize);
      identity = nodes.touchChild(identity, this.#probe);
    }
    this.#high = words[words.length - 2] ?? 0;
    this.#low = words[words.length - 1] ?? 0;
    this.#identity = identity;
  }

  #parentIdentity(stream: number, { parent }: StoredEvent): number | undefined {
    const { holdings, nodes } = this.#graph;
    if (parent === undefined) return nodes.identityOf(ROOT);
    const high = parent.words[0] ?? 0;
    const low = parent.words[1] ?? 0;
    if (this.#identity !== undefined && high === this.#high && low === this.#low) return this.#identity;
    const node = holdings.nodeOfHash(stream, high, low);
    return node === 0 ? undefined : nodes.identityOf(node);
  }
}
