/** A bounded memory of what clients sent, for tests and for looking at a demo. Oldest entries go first. */

export interface ReceivedRequest {
  readonly method: string;
  /** Path with query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** As it came over the wire; empty until it was read. */
  body: Buffer;
  /** Monotonic clock (`performance.now()`). */
  readonly atMs: number;
  /** When the client went away before the answer was complete. */
  abortedAtMs?: number;
}

const MAX_BODY_BYTES = 4 * 1024 * 1024;

export class ReceivedLog {
  readonly #entries: ReceivedRequest[] = [];
  readonly #capacity: number;
  #bytes = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get entries(): readonly ReceivedRequest[] {
    return this.#entries;
  }

  add(entry: ReceivedRequest): void {
    this.#entries.push(entry);
    this.#trim();
  }

  setBody(entry: ReceivedRequest, body: Buffer): void {
    entry.body = body;
    if (!this.#entries.includes(entry)) return;
    this.#bytes += body.length;
    this.#trim();
  }

  clear(): void {
    this.#entries.length = 0;
    this.#bytes = 0;
  }

  #trim(): void {
    while (this.#entries.length > this.#capacity || (this.#bytes > MAX_BODY_BYTES && this.#entries.length > 1)) {
      const gone = this.#entries.shift();
      this.#bytes -= gone?.body.length ?? 0;
    }
  }
}
