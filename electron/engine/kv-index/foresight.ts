/**
 * What storing a batch will look for, read before any of it is stored. The tables of a full index are larger than every
 * cache, so each search waits for memory; searches that begin together wait together, one after the other each for itself.
 * Changes nothing, and may be wrong: what was not foreseen is waited for as before.
 */
import { hashCount, highWord, lowWord } from '../kv-events/block-hashes.ts';
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
    const { holdings, nodes, keepsContent } = this.#graph;
    let stores = 0;
    for (const event of events) {
      if (event.kind !== 'stored' && event.kind !== 'removed') continue;
      const { hashes } = event;
      const count = hashCount(hashes);
      for (let index = 0; index < count; index += 1) holdings.expect(stream, highWord(hashes, index), lowWord(hashes, index));
      if (event.kind === 'stored') stores += count;
    }
    if (stores > 0) this.#graph.expectEvictions(stores);
    holdings.fetch();
    this.#identity = undefined;
    if (keepsContent) for (const event of events) if (event.kind === 'stored') this.#expectContent(stream, event);
    nodes.fetch();
  }

  #expectContent(stream: number, event: StoredEvent): void {
    const { nodes } = this.#graph;
    const { hashes, blockSize, tokens } = event;
    const count = hashCount(hashes);
    let identity = this.#parentIdentity(stream, event);
    if (identity === undefined || blockSize === 0 || count === 0 || tokens.length !== count * blockSize) return;
    for (let offset = 0; offset < tokens.length; offset += blockSize) {
      this.#probe.set(tokens.words, tokens.start + offset, blockSize);
      identity = nodes.expectChild(identity, this.#probe);
    }
    this.#high = highWord(hashes, count - 1);
    this.#low = lowWord(hashes, count - 1);
    this.#identity = identity;
  }

  #parentIdentity(stream: number, { parent }: StoredEvent): number | undefined {
    const { holdings, nodes } = this.#graph;
    if (parent === undefined) return nodes.identityOf(ROOT);
    const high = highWord(parent, 0);
    const low = lowWord(parent, 0);
    if (this.#identity !== undefined && high === this.#high && low === this.#low) return this.#identity;
    const node = holdings.nodeOfHash(stream, high, low);
    return node === 0 ? undefined : nodes.identityOf(node);
  }
}
