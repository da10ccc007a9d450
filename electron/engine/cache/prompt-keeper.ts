/**
 * Bodies of requests that are to be explained, and their tokens where routing needed them, from their arrival until their
 * tokens were had: references, nothing is copied. Called on the hot path. Bounded by bytes, by the size of one, and by a rate, so that explaining costs the same
 * however many requests come; what is left out has a reason and is counted. Off, no body is kept.
 */
import type { RequestRecord } from '../telemetry/request-record.ts';

export interface PromptKeeperOptions {
  readonly isOn: boolean;
  /** Of all bodies and tokens kept. Default 32 MiB. */
  readonly maxBytes?: number;
  /** Of one. Default 4 MiB. */
  readonly maxBodyBytes?: number;
  /** Requests explained per second, on average. Default 10. */
  readonly perSecond?: number;
  /** Requests explained at once after a quiet time. Default 40. */
  readonly burst?: number;
  /** Monotonic milliseconds. Default: the system's clock. */
  readonly now?: () => number;
}

const MIB = 1024 * 1024;

export interface KeptPrompt {
  readonly body: Buffer;
  /** As routing had them. */
  readonly tokens: Uint32Array | undefined;
  readonly from: 'request' | 'render' | 'tokenize' | undefined;
}

export const OFF_REASON = 'explaining is switched off, so no prompt is kept';

export class PromptKeeper {
  isOn: boolean;
  /** Requests not explained because of the rate, or of the bytes. */
  dropped = 0;
  readonly #limits: Required<Omit<PromptKeeperOptions, 'isOn' | 'now'>>;
  readonly #now: () => number;
  readonly #prompts = new Map<RequestRecord, KeptPrompt>();
  #bytes = 0;
  #allowance: number;
  #filledMs: number;

  constructor({ isOn, maxBytes = 32 * MIB, maxBodyBytes = 4 * MIB, perSecond = 10, burst = 40, now = () => performance.now() }: PromptKeeperOptions) {
    this.isOn = isOn;
    this.#limits = { maxBytes, maxBodyBytes, perSecond, burst };
    this.#now = now;
    this.#allowance = burst;
    this.#filledMs = now();
  }

  /** Bytes kept now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps a body. @returns why not, or undefined. */
  keep(record: RequestRecord, body: Buffer): string | undefined {
    if (!this.isOn) return OFF_REASON;
    const { maxBytes, maxBodyBytes } = this.#limits;
    if (body.length > maxBodyBytes) return this.#drop(`the body is larger than ${maxBodyBytes} bytes`);
    if (this.#bytes + body.length > maxBytes) return this.#drop(`more than ${maxBytes} bytes of prompts were waiting to be explained`);
    if (!this.#allow()) return this.#drop(`more than ${this.#limits.perSecond} requests a second came; only so many are explained`);
    this.#prompts.set(record, { body, tokens: undefined, from: undefined });
    this.#bytes += body.length;
    return undefined;
  }

  /** Keeps the tokens of a body that is kept, so that nobody is asked for them again; not beyond the limit of bytes. */
  learn(record: RequestRecord, tokens: Uint32Array, from: NonNullable<KeptPrompt['from']>): void {
    const kept = this.#prompts.get(record);
    if (kept === undefined || kept.tokens !== undefined || this.#bytes + tokens.byteLength > this.#limits.maxBytes) return;
    this.#prompts.set(record, { body: kept.body, tokens, from });
    this.#bytes += tokens.byteLength;
  }

  /** Hands a prompt over and forgets it. */
  take(record: RequestRecord): KeptPrompt | undefined {
    const kept = this.#prompts.get(record);
    if (kept === undefined) return undefined;
    this.#prompts.delete(record);
    this.#bytes -= kept.body.length + (kept.tokens?.byteLength ?? 0);
    return kept;
  }

  clear(): RequestRecord[] {
    const records = Array.from(this.#prompts.keys());
    this.#prompts.clear();
    this.#bytes = 0;
    return records;
  }

  #allow(): boolean {
    const nowMs = this.#now();
    const { perSecond, burst } = this.#limits;
    this.#allowance = Math.min(burst, this.#allowance + ((nowMs - this.#filledMs) / 1000) * perSecond);
    this.#filledMs = nowMs;
    if (this.#allowance < 1) return false;
    this.#allowance -= 1;
    return true;
  }

  #drop(reason: string): string {
    this.dropped += 1;
    return reason;
  }
}
