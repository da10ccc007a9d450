/**
 * Tokens of prompts asked for a moment ago, by a digest of the very bytes that an instance would be asked with: requests
 * repeated as they are (retries, several samples, load tests) are not tokenised again. Equal bytes only, for no tokenizer
 * says what a longer prompt's beginning becomes. Short-lived, since chat templates may write the date into a prompt, and
 * bounded. Keeps no text.
 */
import { createHash } from 'node:crypto';

const FRESH_MS = 30_000;
const MAX_ENTRIES = 512;
const MAX_BYTES = 8 * 1024 * 1024;
/** Larger bodies cost more to digest than they are likely to come again. */
const MAX_BODY_BYTES = 64 * 1024;

interface Entry {
  readonly tokens: Uint32Array;
  readonly atMs: number;
}

export class TokenCache {
  readonly #entries = new Map<string, Entry>();
  readonly #now: () => number;
  #bytes = 0;

  /** @param now monotonic milliseconds. Default: the system's. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Of all tokens kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** What `get` and `set` take; undefined for bodies that are not kept. */
  keyOf(body: Buffer): string | undefined {
    return body.length > MAX_BODY_BYTES ? undefined : createHash('sha1').update(body).digest('base64');
  }

  get(key: string): Uint32Array | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (this.#now() - entry.atMs < FRESH_MS) return entry.tokens;
    this.#delete(key, entry);
    return undefined;
  }

  set(key: string, tokens: Uint32Array): void {
    const before = this.#entries.get(key);
    if (before !== undefined) this.#delete(key, before);
    this.#entries.set(key, { tokens, atMs: this.#now() });
    this.#bytes += tokens.byteLength;
    for (const [oldest, entry] of this.#entries) {
      if (this.#bytes <= MAX_BYTES && this.#entries.size <= MAX_ENTRIES) break;
      this.#delete(oldest, entry);
    }
  }

  #delete(key: string, { tokens }: Entry): void {
    this.#entries.delete(key);
    this.#bytes -= tokens.byteLength;
  }
}
