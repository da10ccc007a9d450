/** Keeps the last bytes of a stream as references to its chunks: nothing is copied until they are read. */
export class ByteTail {
  readonly #capacity: number;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #totalBytes = 0;

  /** @param capacity at least this many bytes are kept (whole chunks; at most one chunk more). */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** True when nothing has been left out. */
  get isWhole(): boolean {
    return this.#bytes === this.#totalBytes;
  }

  get totalBytes(): number {
    return this.#totalBytes;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    this.#totalBytes += chunk.length;
    let first = this.#chunks[0];
    while (first !== undefined && this.#bytes - first.length >= this.#capacity) {
      this.#chunks.shift();
      this.#bytes -= first.length;
      first = this.#chunks[0];
    }
  }

  read(): Buffer {
    const [only] = this.#chunks;
    return this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks);
  }
}
