/**
 * Counts complete server-sent events in a byte stream without decoding it, across any chunk borders.
 * An event is at least one line that is not a comment, ended by an empty line (WHATWG HTML 9.2.6). Lines end in LF or
 * CRLF; a lone CR, which no engine sends, is not taken for a line end.
 */
const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;

export class SseScanner {
  /** The bytes since the last line end are not nothing. */
  #isMidLine = false;
  /** That line is a comment. */
  #isComment = false;
  /** Lines of an event were seen that no empty line has ended yet. */
  #hasLines = false;

  /** True when the bytes so far end between two events, so that an event may be inserted. */
  get isAtBorder(): boolean {
    return !this.#isMidLine && !this.#hasLines;
  }

  /** How many events `chunk` completes. */
  scan(chunk: Buffer): number {
    let events = 0;
    let at = 0;
    const { length } = chunk;
    while (at < length) {
      const end = chunk.indexOf(LF, at);
      const stop = end < 0 ? length : end;
      const isOnlyCr = stop - at === 1 && chunk[at] === CR;
      if (stop > at && !isOnlyCr) {
        if (!this.#isMidLine) this.#isComment = chunk[at] === COLON;
        this.#isMidLine = true;
      }
      if (end < 0) break;
      if (this.#isMidLine) {
        if (!this.#isComment) this.#hasLines = true;
        this.#isMidLine = false;
        this.#isComment = false;
      } else if (this.#hasLines) {
        events++;
        this.#hasLines = false;
      }
      at = end + 1;
    }
    return events;
  }
}
