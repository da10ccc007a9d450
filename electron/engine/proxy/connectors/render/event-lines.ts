/** Payloads of the `data:` lines of an event stream, across any chunk borders. Engines put each event on one line. */
const LF = 0x0a;
/** No engine's event comes near; a stream without line ends is none. */
const MAX_LINE_BYTES = 32 * 1024 * 1024;

export class EventLines {
  #rest: Buffer | undefined;

  /** Throws RangeError when a line has no end. */
  push(chunk: Buffer): readonly string[] {
    const end = chunk.lastIndexOf(LF);
    if (end < 0) {
      this.#rest = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
      if (this.#rest.length > MAX_LINE_BYTES) throw new RangeError(`an event of more than ${MAX_LINE_BYTES / 1024 / 1024} MiB`);
      return [];
    }
    const whole = this.#rest === undefined ? chunk.subarray(0, end) : Buffer.concat([this.#rest, chunk.subarray(0, end)]);
    this.#rest = end + 1 === chunk.length ? undefined : chunk.subarray(end + 1);
    return whole.toString('utf8').split('\n').flatMap((line) => (line.startsWith('data:') ? [line.slice(5).trim()] : []));
  }
}
