/**
 * The index as it would be written without a thought for speed: maps, strings, whole histories. Content of blocks is
 * told by the world the events are made from, so nothing here hashes or compares tokens.
 */
export interface NaiveInterval {
  readonly from: number;
  to: number | undefined;
  reason: string | undefined;
}

interface NaiveNode {
  parent: NaiveNode | 'root' | undefined;
  content: string | undefined;
}

interface NaiveBlock {
  readonly residency: string;
  readonly hash: bigint;
  readonly node: NaiveNode;
  copies: number;
}

export interface NaiveStore {
  readonly residency: string;
  readonly hashes: readonly bigint[];
  readonly parent: bigint | undefined;
  /** Content of each block; absent when tokens and hashes do not pair. */
  readonly contents: readonly string[] | undefined;
  readonly isReporting: boolean;
}

export class NaiveStream {
  unknownRemovals = 0;
  readonly #nodes = new Map<bigint, NaiveNode>();
  readonly #live = new Map<string, NaiveBlock>();
  /** By residency and content path; of placed blocks only those placed when their interval is asked for. */
  readonly #history: { readonly residency: string; readonly node: NaiveNode; readonly interval: NaiveInterval }[] = [];

  store(event: NaiveStore, at: number): void {
    let parent = event.contents === undefined ? undefined : event.parent === undefined ? 'root' as const : this.#nodeOf(event.parent);
    for (const [index, hash] of event.hashes.entries()) {
      const node = this.#nodeOf(hash);
      const content = event.contents?.[index];
      if (content !== undefined && parent !== undefined) {
        if (node.content === undefined) {
          node.content = content;
          node.parent = parent;
        } else if (pathOf(node) === undefined && pathOf(parent) !== undefined) {
          node.parent = parent;
        }
        parent = node;
      }
      const key = `${event.residency} ${hash}`;
      const block = this.#live.get(key);
      if (block !== undefined) {
        // Announcements are of prefixes, on the GPU.
        if (!(event.isReporting && event.parent === undefined && event.residency.startsWith('GPU'))) block.copies += 1;
        continue;
      }
      this.#live.set(key, { residency: event.residency, hash, node, copies: 1 });
      this.#history.push({ residency: event.residency, node, interval: { from: at, to: undefined, reason: undefined } });
    }
  }

  remove(residency: string, hash: bigint, at: number): void {
    const key = `${residency} ${hash}`;
    const block = this.#live.get(key);
    if (block === undefined) {
      this.unknownRemovals += 1;
      return;
    }
    block.copies -= 1;
    if (block.copies === 0) this.#end(key, block, { at, reason: 'removed' });
  }

  reset(reason: 'restart' | 'cleared' | 'detached', at: number): void {
    for (const [key, block] of Array.from(this.#live)) if (reason !== 'cleared' || block.residency.startsWith('GPU')) this.#end(key, block, { at, reason });
  }

  /** `residency hash` -> copies. */
  copies(): ReadonlyMap<string, number> {
    return new Map(Array.from(this.#live, ([key, block]) => [key, block.copies]));
  }

  /** `residency hash` -> content path, or undefined where the chain to token 0 is not known. */
  paths(): ReadonlyMap<string, string | undefined> {
    return new Map(Array.from(this.#live, ([key, block]) => [key, pathOf(block.node)]));
  }

  /** Intervals in which a residency of `media` held a content path, in order. */
  intervals(path: string, isCounted: (residency: string) => boolean): NaiveInterval[] {
    return this.#history.filter((entry) => isCounted(entry.residency) && pathOf(entry.node) === path).map((entry) => entry.interval);
  }

  #end(key: string, block: NaiveBlock, { at, reason }: { readonly at: number; readonly reason: string }): void {
    this.#live.delete(key);
    const open = this.#history.findLast((entry) => entry.residency === block.residency && entry.node === block.node && entry.interval.to === undefined);
    if (open === undefined) throw new Error('no open interval');
    open.interval.to = at;
    open.interval.reason = reason;
  }

  #nodeOf(hash: bigint): NaiveNode {
    let node = this.#nodes.get(hash);
    if (node === undefined) {
      node = { parent: undefined, content: undefined };
      this.#nodes.set(hash, node);
    }
    return node;
  }
}

function pathOf(node: NaiveNode | 'root'): string | undefined {
  if (node === 'root') return '';
  if (node.content === undefined || node.parent === undefined) return undefined;
  const parent = pathOf(node.parent);
  return parent === undefined ? undefined : `${parent}/${node.content}`;
}
