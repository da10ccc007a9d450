/** Items in the order of their last change, each once: moving to the end is a few stores, reading from a number on is as long as the answer. */

export interface ChangeNode {
  /** Change number of the last change; 0 = not in the list. */
  change: number;
  previousChange: this | undefined;
  nextChange: this | undefined;
}

export class ChangeList<T extends ChangeNode> {
  #tail: T | undefined;
  #last = 0;

  /** The newest change number; 0 before the first. Never goes back. */
  get last(): number {
    return this.#last;
  }

  /** Gives `node` the next change number and puts it at the end. */
  touch(node: T): void {
    if (node.change !== 0) this.#unlink(node);
    this.#last += 1;
    node.change = this.#last;
    node.previousChange = this.#tail;
    if (this.#tail !== undefined) this.#tail.nextChange = node;
    this.#tail = node;
  }

  remove(node: T): void {
    if (node.change === 0) return;
    this.#unlink(node);
    node.change = 0;
  }

  /** Nodes changed after `change`, in order of change. */
  since(change: number): T[] {
    const found: T[] = [];
    for (let node = this.#tail; node !== undefined && node.change > change; node = node.previousChange) found.push(node);
    return found.reverse();
  }

  #unlink(node: T): void {
    const { previousChange: previous, nextChange: next } = node;
    if (previous !== undefined) previous.nextChange = next;
    if (next === undefined) this.#tail = previous;
    else next.previousChange = previous;
    node.previousChange = undefined;
    node.nextChange = undefined;
  }
}
