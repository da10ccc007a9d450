/**
 * Bodies of requests that are to be explained, and their tokens where routing needed them: references, nothing is copied.
 * From their arrival until their tokens were had they wait; those of requests that are not explained by themselves are
 * spare from then on: kept until somebody opens the request, or until they have to give way.
 *
 * Called on the hot path. All of them share one limit of bytes: what comes takes the room of spare ones, the oldest first;
 * what waits gives way to nothing, and keeps others out. What is left out or gave way is counted. Off, no body is kept.
 */
import type { RecordId } from '#shared/ids.ts';
import type { RequestRecord } from '../telemetry/request-record.ts';
import type { RequestInit } from '../telemetry/trace.ts';

export interface PromptKeeperOptions {
  readonly isOn: boolean;
  /** Of all bodies and tokens kept, what comes with them included. Default 32 MiB. */
  readonly maxBytes?: number;
  /** Of one. Default 4 MiB. */
  readonly maxBodyBytes?: number;
  /** Spare ones. Default 10,000, as many as there are records. */
  readonly maxSpare?: number;
}

const MIB = 1024 * 1024;
/** Of a spare prompt, beside its body: headers, and its place in the table. */
const SPARE_BYTES = 1024;

export interface KeptPrompt {
  readonly body: Buffer;
  /** As routing had them. */
  readonly tokens: Uint32Array | undefined;
  readonly from: 'request' | 'render' | 'tokenize' | undefined;
}

/** What is known of a request with a spare prompt beside its record, which may be sealed. */
export interface SpareFacts {
  readonly init: RequestInit;
  readonly model: string | undefined;
  /** Which of its legs computed the prompt. */
  readonly leg: number;
  /** When that was sent, by our clock. */
  readonly sentAtUnixMs: number;
  /** Tokens per block of its instance then; 0 when that was not known. */
  readonly blockSize: number;
}

export interface SparePrompt extends KeptPrompt {
  readonly facts: SpareFacts;
}

export const OFF_REASON = 'explaining is switched off, so no prompt is kept';

export class PromptKeeper {
  isOn: boolean;
  /** Requests that cannot be explained, since their prompts were too large, or too many waited. */
  refused = 0;
  /** Spare prompts that gave way. */
  gaveWay = 0;
  readonly #limits: Required<Omit<PromptKeeperOptions, 'isOn'>>;
  readonly #waiting = new Map<RequestRecord, KeptPrompt>();
  readonly #spare = new Map<RecordId, SparePrompt>();
  #bytes = 0;

  constructor({ isOn, maxBytes = 32 * MIB, maxBodyBytes = 4 * MIB, maxSpare = 10_000 }: PromptKeeperOptions) {
    this.isOn = isOn;
    this.#limits = { maxBytes, maxBodyBytes, maxSpare };
  }

  /** Bytes kept now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes kept at most. */
  get maxBytes(): number {
    return this.#limits.maxBytes;
  }

  /** Keeps a body. @returns why not, or undefined. */
  keep(record: RequestRecord, body: Buffer): string | undefined {
    if (!this.isOn) return OFF_REASON;
    const { maxBytes, maxBodyBytes } = this.#limits;
    if (body.length > maxBodyBytes) return this.#refuse(`the body is larger than ${maxBodyBytes} bytes`);
    const prompt = { body, tokens: undefined, from: undefined };
    if (!this.#makeRoom(sizeOf(prompt))) return this.#refuse(`more than ${maxBytes} bytes of prompts were waiting to be explained`);
    this.#waiting.set(record, prompt);
    this.#bytes += sizeOf(prompt);
    return undefined;
  }

  /** Keeps the tokens of a body that is kept, so that nobody is asked for them again; not beyond the limit of bytes. */
  learn(record: RequestRecord, tokens: Uint32Array, from: NonNullable<KeptPrompt['from']>): void {
    const kept = this.#waiting.get(record);
    if (kept === undefined || kept.tokens !== undefined || !this.#makeRoom(tokens.byteLength)) return;
    this.#waiting.set(record, { body: kept.body, tokens, from });
    this.#bytes += tokens.byteLength;
  }

  /** A prompt that waits. */
  waiting(record: RequestRecord): KeptPrompt | undefined {
    return this.#waiting.get(record);
  }

  /** Hands a prompt that waits over and forgets it. */
  take(record: RequestRecord): KeptPrompt | undefined {
    const kept = this.#waiting.get(record);
    if (kept === undefined) return undefined;
    this.#waiting.delete(record);
    this.#bytes -= sizeOf(kept);
    return kept;
  }

  /** A prompt that waits is not asked for by itself: it is kept for whoever opens the request. */
  makeSpare(record: RequestRecord, facts: SpareFacts): void {
    const kept = this.take(record);
    if (kept === undefined || !this.#makeRoom(sizeOf(kept) + SPARE_BYTES)) return;
    this.#spare.set(record.id, { ...kept, facts });
    this.#bytes += sizeOf(kept) + SPARE_BYTES;
    if (this.#spare.size > this.#limits.maxSpare) this.#giveWay();
  }

  spare(id: RecordId): SparePrompt | undefined {
    return this.#spare.get(id);
  }

  /** Its request was explained. */
  dropSpare(id: RecordId): void {
    const spare = this.#spare.get(id);
    if (spare === undefined) return;
    this.#spare.delete(id);
    this.#bytes -= sizeOf(spare) + SPARE_BYTES;
  }

  /** @returns whose prompts waited. */
  clear(): RequestRecord[] {
    const records = Array.from(this.#waiting.keys());
    this.#waiting.clear();
    this.#spare.clear();
    this.#bytes = 0;
    return records;
  }

  #makeRoom(bytes: number): boolean {
    while (this.#bytes + bytes > this.#limits.maxBytes) if (!this.#giveWay()) return false;
    return true;
  }

  /** The oldest. False when there is none. */
  #giveWay(): boolean {
    for (const id of this.#spare.keys()) {
      this.dropSpare(id);
      this.gaveWay += 1;
      return true;
    }
    return false;
  }

  #refuse(reason: string): string {
    this.refused += 1;
    return reason;
  }
}

/** A body of several chunks may be a part of a larger block of memory, all of which is kept for it. */
function sizeOf({ body, tokens }: KeptPrompt): number {
  return body.buffer.byteLength + (tokens?.byteLength ?? 0);
}
