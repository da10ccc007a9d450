/**
 * A set in the order of adding, linked through its members, for what comes and goes with every request.
 *
 * Not a Set: its hash table is made anew every so many additions. Once the set is old, so is each such table, and
 * every dead one keeps what it held at that moment - here whole requests with their sockets - until the next full
 * garbage collection. That made nearly all garbage survive, and collecting it the dearest part of a request.
 */

export interface LinkedNode {
  /** The set's own; undefined outside of it. */
  links: Links | undefined;
}

interface Links {
  previous: LinkedNode | undefined;
  next: LinkedNode | undefined;
}

export class LinkedSet<T extends LinkedNode> {
  #first: LinkedNode | undefined;
  #last: LinkedNode | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The member that was added first. */
  get first(): T | undefined {
    return this.#first as T | undefined;
  }

  /** `node` must be in no set. */
  add(node: T): void {
    const previous = this.#last;
    node.links = { previous, next: undefined };
    if (previous?.links === undefined) this.#first = node;
    else previous.links.next = node;
    this.#last = node;
    this.#size++;
  }

  /** @returns false when it was not in the set. */
  delete(node: T): boolean {
    const { links } = node;
    if (links === undefined) return false;
    const { previous, next } = links;
    if (previous?.links === undefined) this.#first = next;
    else previous.links.next = next;
    if (next?.links === undefined) this.#last = previous;
    else next.links.previous = previous;
    node.links = undefined;
    this.#size--;
    return true;
  }

  /** The members now: what happens to the set meanwhile does not matter. */
  toArray(): T[] {
    const members: T[] = [];
    for (let node = this.#first; node !== undefined; node = node.links?.next) members.push(node as T);
    return members;
  }
}
