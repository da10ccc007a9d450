/**
 * Bodies of requests that are to be explained, from their arrival until their tokens were had: a reference, nothing is
 * copied. Called on the hot path. Bounded by bytes, by the size of one, and by a rate, so that explaining costs the same
 * however many requests come; what is left out has a reason and is counted. Off, no body is kept.
 */
import type { RequestRecord } from '../telemetry/request-record.ts';

export interface PromptKeeperOptions {
  readonly isOn: boolean;
  /** Of all bodies kept. Default 32 MiB. */
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

export const OFF_REASON = 'explaining is switched off, so no prompt is kept';

export class PromptKeeper {
  isOn: boolean;
  /** Requests not explained because of the rate, or of the bytes. */
  dropped = 0;
  readonly #limits: Required<Omit<PromptKeeperOptions, 'isOn' | 'now'>>;
  readonly #now: () => number;
  readonly #bodies = new Map<RequestRecord, Buffer>();
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
    this.#bodies.set(record, body);
    this.#bytes += body.length;
    return undefined;
  }

  /** Hands a body over and forgets it. */
  take(record: RequestRecord): Buffer | undefined {
    const body = this.#bodies.get(record);
    if (body === undefined) return undefined;
    this.#bodies.delete(record);
    this.#bytes -= body.length;
    return body;
  }

  clear(): RequestRecord[] {
    const records = Array.from(this.#bodies.keys());
    this.#bodies.clear();
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
