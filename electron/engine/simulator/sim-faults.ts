/** Which fault an instance has now, and how much of it. The instance acts on it; this only remembers. */
import type { SimFault } from '#shared/operations.ts';

/** Used when no amount is given. */
const DEFAULT_AMOUNTS: Readonly<Partial<Record<SimFault, number>>> = {
  /** Factor on all simulated times. */
  slow: 10,
  /** Chunks of a stream before the cut. */
  'reset-mid-stream': 3,
  /** Batches kept back per rank. */
  'event-gap': 5,
};

export class SimFaults {
  #fault: SimFault = 'none';
  #amount = 1;

  get fault(): SimFault {
    return this.#fault;
  }

  get amount(): number {
    return this.#amount;
  }

  set(fault: SimFault, amount?: number): void {
    this.#fault = fault;
    this.#amount = amount ?? DEFAULT_AMOUNTS[fault] ?? 1;
  }

  /** Factor on all simulated times. */
  slowdown(): number {
    return this.#fault === 'slow' ? this.#amount : 1;
  }
}
