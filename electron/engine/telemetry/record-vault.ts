/**
 * Finished records, sealed: what can be shown of them is packed into runs of bytes, since thousands of records as objects
 * are what a garbage collector spends its time and its room on. A sealed record has four parts, each read by itself: its
 * row (lists and filters read all of them), a brief (questions over a window), its detail, and the report why it missed.
 * Captured bodies stay as they were. Sealing takes tens of microseconds and is done off the hot path, as is reading.
 */
import type { MissReport } from '#shared/cache.ts';
import type { RecordId } from '#shared/ids.ts';
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import type { KeptMiss } from '../cache/kept-report.ts';
import { CHUNK_WORDS, WordArena } from '../kv-events/word-arena.ts';
import { runOf } from '../kv-events/word-run.ts';
import type { Clock } from './clock.ts';
import type { ExplainedRecord, KeptRecord, LegBrief, MissBrief } from './kept-record.ts';
import { bodiesOf, joinDetail, plainDetailOf, rowOf, type KeptBodies, type PlainDetail } from './materialise.ts';
import type { RequestRecord } from './request-record.ts';
import { SharedTexts } from './shared-texts.ts';
import { ValuePacker } from './value-packer.ts';
import { readValue } from './value-reader.ts';

export interface SealedRecord {
  readonly id: RecordId;
  readonly n: number;
  readonly isOwnProbe: boolean;
  readonly receivedMs: number;
  /** About how much memory it takes, captured bodies included. */
  readonly bytes: number;
  readonly texts: SharedTexts;
  /** Reference into the arena. */
  readonly run: number;
  readonly words: number;
  /** Of captured bodies. */
  readonly captureBytes: number;
  readonly bodies: KeptBodies | undefined;
}

interface Brief {
  readonly connector: RequestRecord['init']['connector'];
  readonly legs: readonly LegBrief[];
  readonly why: MissBrief | undefined;
}

/** Words before the parts: where brief, detail and report begin. */
const HEADER_WORDS = 3;
const HEADER_BYTES = 4 * HEADER_WORDS;
/** Its objects, and its places in the tables of the store. */
const OBJECT_BYTES = 400;

export class RecordVault {
  readonly #clock: Clock;
  readonly #arena = new WordArena();
  #texts = new SharedTexts();
  readonly #packer = new ValuePacker(this.#texts);
  #words = new Uint32Array(1024);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Undefined when the record is better kept as it is: it is huge, or holds what cannot be packed. */
  seal(record: RequestRecord): SealedRecord | undefined {
    const { id, n, isOwnProbe, receivedMs, captureBytes } = record;
    const stored = this.#store(n, () => [rowOf(record, this.#clock), briefOf(record), plainDetailOf(record), ...reportOf(record.why)]);
    return stored === undefined ? undefined : { id, n, isOwnProbe, receivedMs, ...stored, bytes: OBJECT_BYTES + 4 * stored.words + captureBytes, captureBytes, bodies: bodiesOf(record) };
  }

  /** The same record with another report, in a place of its own; undefined when that does not fit. */
  withReport(sealed: SealedRecord, why: KeptMiss): SealedRecord | undefined {
    const brief = this.#read(sealed, 1) as Brief;
    const stored = this.#store(sealed.n, () => [this.row(sealed), { ...brief, why: missBriefOf(why) }, this.#read(sealed, 2), ...reportOf(why)]);
    return stored === undefined ? undefined : { ...sealed, ...stored, bytes: OBJECT_BYTES + 4 * stored.words + sealed.captureBytes };
  }

  #store(n: number, parts: () => readonly unknown[]): Pick<SealedRecord, 'texts' | 'run' | 'words'> | undefined {
    const packed = this.#pack(n, parts);
    if (packed === undefined) return undefined;
    const words = HEADER_WORDS + Math.ceil(packed.bytes.length / 4);
    if (words > CHUNK_WORDS) return undefined;
    if (this.#words.length < words) this.#words = new Uint32Array(2 * words);
    this.#words.set(packed.ends);
    packed.bytes.copy(new Uint8Array(this.#words.buffer), HEADER_BYTES);
    const run = this.#arena.open(words);
    this.#arena.push(runOf(this.#words), words);
    return { texts: this.#texts, run, words };
  }

  /** Gives a record's room back; nothing may be read of it from now on. */
  release(sealed: SealedRecord): void {
    this.#arena.release(sealed.run);
  }

  row(sealed: SealedRecord): RequestRow {
    return this.#read(sealed, 0) as RequestRow;
  }

  detail(sealed: SealedRecord): RequestDetail {
    return joinDetail(this.row(sealed), this.#read(sealed, 2) as PlainDetail, sealed.bodies);
  }

  /** Reads the brief once, when somebody asks for more than what it is of. */
  kept(sealed: SealedRecord): KeptRecord {
    return new SealedView(sealed, this.#clock, () => this.#read(sealed, 1) as Brief);
  }

  explained(sealed: SealedRecord): ExplainedRecord {
    const { legs, why } = this.#read(sealed, 1) as Brief;
    return { legs, why: why?.state === 'ready' ? { state: 'ready', leg: why.leg, report: this.#read(sealed, 3) as MissReport } : why };
  }

  /** Row, brief and detail, and the report where there is one. */
  #pack(n: number, parts: () => readonly unknown[]): { readonly bytes: Buffer; readonly ends: readonly number[] } | undefined {
    if (this.#texts.isFull) this.#texts = new SharedTexts();
    const packer = this.#packer;
    packer.begin(this.#texts, n);
    try {
      const ends = parts().map((part) => packer.add(part));
      return { bytes: packer.packed, ends: ends.slice(0, HEADER_WORDS) };
    } catch (error) {
      if (error instanceof TypeError) return undefined;
      throw error;
    }
  }

  /** Part 0 is the row, 1 the brief, 2 the detail, 3 the report. */
  #read({ run, words, texts }: SealedRecord, part: number): unknown {
    const view = this.#arena.read(run, words);
    const start = part === 0 ? 0 : (view[part - 1] ?? 0);
    return readValue(Buffer.from(view.buffer, view.byteOffset, view.byteLength).subarray(HEADER_BYTES), start, texts);
  }
}

function briefOf({ init, legs, why }: RequestRecord): Brief {
  return {
    connector: init.connector,
    legs: legs.map(({ kind, usage, instance, transferParamsSent }) => ({ kind, usage, instance: { id: instance.id }, transferParamsSent: transferParamsSent === undefined ? undefined : true })),
    why: missBriefOf(why),
  };
}

function reportOf(why: KeptMiss | undefined): MissReport[] {
  return why?.state === 'ready' ? [why.report] : [];
}

function missBriefOf(why: KeptMiss | undefined): MissBrief | undefined {
  if (why?.state !== 'ready') return why;
  const { report, shares, leg, held } = why;
  const { promptTokens, isOpened } = report;
  return { state: 'ready', report: { ...(promptTokens !== undefined && { promptTokens }), ...(isOpened === true && { isOpened }) }, shares, leg, ...(held !== undefined && { held }) };
}

class SealedView implements KeptRecord {
  readonly #sealed: SealedRecord;
  readonly #clock: Clock;
  readonly #read: () => Brief;
  #brief: Brief | undefined;

  constructor(sealed: SealedRecord, clock: Clock, read: () => Brief) {
    this.#sealed = sealed;
    this.#clock = clock;
    this.#read = read;
  }

  get id(): RecordId {
    return this.#sealed.id;
  }

  get n(): number {
    return this.#sealed.n;
  }

  get isOwnProbe(): boolean {
    return this.#sealed.isOwnProbe;
  }

  get init(): KeptRecord['init'] {
    return this.#get();
  }

  get legs(): readonly LegBrief[] {
    return this.#get().legs;
  }

  get why(): MissBrief | undefined {
    return this.#get().why;
  }

  elapsedMs(): number {
    return this.#clock.now() - this.#sealed.receivedMs;
  }

  #get(): Brief {
    return (this.#brief ??= this.#read());
  }
}
