/**
 * The bounded history of requests. Finished records go when there are too many or they take too much memory, oldest
 * finished first, and are counted; running ones stay. Beyond a hard limit of running ones new requests are not recorded,
 * and that is counted too.
 *
 * A finished record that has been quiet for a while is sealed (record-vault.ts) and let go. Whoever still has it may go on
 * telling it things: it comes back as it was, with what is new, and is sealed again later.
 */
import type { RecordId } from '#shared/ids.ts';
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import type { RingCounters } from '#shared/state.ts';
import type { KeptMiss } from '../cache/kept-report.ts';
import type { RowLog } from '../row-log.ts';
import { boundValue, sizeOfValue } from './bound-value.ts';
import { ChangeList, type ChangeNode } from './change-list.ts';
import { Fifo } from './fifo.ts';
import { detailOf, rowOf } from './materialise.ts';
import type { Clock } from './clock.ts';
import type { ExplainedRecord, KeptRecord } from './kept-record.ts';
import { RecordVault, type SealedRecord } from './record-vault.ts';
import type { RequestRecord } from './request-record.ts';

export interface RecordStoreOptions {
  readonly capacity: number;
  readonly maxBytes: number;
  readonly clock: Clock;
  /** Folds in what the hot path left; called before every read. */
  readonly settle: () => void;
}

/** A record with its row, headers and decision, estimated. */
const BASE_BYTES = 3000;
const LEG_BYTES = 1500;
const CANDIDATE_BYTES = 120;
/** What it held of the prompt, in numbers and words of its own. */
const MATCH_BYTES = 130;
/** Without its message; title and next step are mostly shared. */
const VERDICT_BYTES = 200;
/** Characters. */
const SHORT_TEXT = 4096;
/** Running requests beyond this many times the capacity are not recorded. */
const RUNNING_FACTOR = 4;
/** A record is sealed when nothing was heard of it for so long: facts of the answer and the report why it missed have come by then. */
const QUIET_MS = 5000;
/** Records looked at between two looks at the time. */
const SEALED_AT_ONCE = 4;

/** A record in the history. Either `record` or `sealed`. */
class Entry implements ChangeNode {
  change = 0;
  previousChange: this | undefined;
  nextChange: this | undefined;
  record: RequestRecord | undefined;
  sealed: SealedRecord | undefined;
  readonly id: RecordId;
  readonly n: number;
  sizeBytes = 0;
  isFinished = false;
  isForgotten = false;
  /** Waits to be sealed. */
  isAwaiting = false;
  touchedMs = 0;

  constructor(record: RequestRecord) {
    this.record = record;
    this.id = record.id;
    this.n = record.n;
  }
}

export class RecordStore implements RowLog<RequestRow> {
  readonly #options: RecordStoreOptions;
  readonly #vault: RecordVault;
  readonly #entries = new Map<RecordId, Entry>();
  readonly #changes = new ChangeList<Entry>();
  readonly #finished = new Fifo<Entry>();
  /** In the order in which they were put here, each for the same time. */
  readonly #awaiting = new Fifo<{ readonly entry: Entry; readonly dueMs: number }>();
  #bytes = 0;
  #total = 0;
  #evicted = 0;
  #dropped = 0;
  #generation = 0;

  constructor(options: RecordStoreOptions) {
    this.#options = options;
    this.#vault = new RecordVault(options.clock);
  }

  /** Memory of finished records, about. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether one more running request may be recorded; counts a drop when not. */
  hasRoom(): boolean {
    const running = this.#entries.size - this.#finished.length;
    if (running < this.#options.capacity * RUNNING_FACTOR) return true;
    this.#dropped += 1;
    return false;
  }

  detail(id: RecordId): RequestDetail | undefined {
    const entry = this.#entries.get(id);
    if (entry?.sealed !== undefined) return this.#vault.detail(entry.sealed);
    return entry?.record === undefined ? undefined : detailOf(entry.record, this.#options.clock);
  }

  explained(id: RecordId): ExplainedRecord | undefined {
    const entry = this.#entries.get(id);
    return entry?.sealed === undefined ? entry?.record : this.#vault.explained(entry.sealed);
  }

  /** Puts a report with a record that was not explained before; nothing happens when it is not kept any more. */
  explain(id: RecordId, why: KeptMiss): void {
    const entry = this.#entries.get(id);
    if (entry?.record !== undefined) {
      entry.record.why = why;
      entry.record.touch();
    }
    if (entry?.sealed === undefined) return;
    const sealed = this.#vault.withReport(entry.sealed, why);
    if (sealed === undefined) return;
    this.#vault.release(entry.sealed);
    entry.sealed = sealed;
    this.#resize(entry, sealed.bytes);
    this.#evict();
  }

  add(record: RequestRecord): void {
    this.#entries.set(record.id, new Entry(record));
    this.#total += 1;
    this.#evict();
  }

  /** The record has news and takes its place at the end of the changes. */
  touch(record: RequestRecord): void {
    record.row = undefined;
    const entry = this.#entries.get(record.id);
    if (entry === undefined) return;
    if (entry.sealed !== undefined) this.#unseal(entry, record);
    entry.touchedMs = this.#options.clock.now();
    this.#changes.touch(entry);
  }

  /** A record ended and will hardly grow any more: counts its memory. Again after late facts. */
  finish(record: RequestRecord): void {
    const entry = this.#entries.get(record.id);
    if (entry === undefined) return;
    record.stream?.chunks.trim();
    if (!entry.isFinished) {
      entry.isFinished = true;
      this.#finished.push(entry);
    }
    this.#resize(entry, compact(record));
    if (!entry.isAwaiting) this.#await(entry);
    this.#evict();
  }

  /** Seals records that are due until `deadlineMs` of the clock, a few at least. @returns whether more are due. */
  seal(deadlineMs: number): boolean {
    const { clock } = this.#options;
    for (let looked = 1; ; looked += 1) {
      const nowMs = clock.now();
      const head = this.#awaiting.first;
      if (head === undefined || head.dueMs > nowMs) return false;
      if (looked > SEALED_AT_ONCE && nowMs > deadlineMs) return true;
      this.#awaiting.shift();
      this.#seal(head.entry, nowMs);
    }
  }

  counters(): RingCounters {
    return { kept: this.#entries.size, capacity: this.#options.capacity, total: this.#total, evicted: this.#evicted, dropped: this.#dropped };
  }

  lastChange(): number {
    this.#options.settle();
    return this.#changes.last;
  }

  changedSince(change: number): RequestRow[] {
    this.#options.settle();
    return this.#changes.since(change).map((entry) => this.#rowOf(entry));
  }

  *rows(): Generator<RequestRow> {
    this.#options.settle();
    // Whoever reads may leave in between, and an entry be forgotten.
    for (const entry of this.#entries.values()) yield this.#rowOf(entry);
  }

  *numbers(): Generator<number> {
    for (const { n } of this.#entries.values()) yield n;
  }

  /** Kept records, oldest first. To be read at once: nothing else may happen in between. */
  *records(): Generator<KeptRecord> {
    for (const { record, sealed } of this.#entries.values()) {
      if (sealed !== undefined) yield this.#vault.kept(sealed);
      else if (record !== undefined) yield record;
    }
  }

  generation(): number {
    return this.#generation;
  }

  clear(): number {
    const cleared = this.#finished.length;
    for (let entry = this.#finished.shift(); entry !== undefined; entry = this.#finished.shift()) this.#forget(entry);
    this.#generation += 1;
    return cleared;
  }

  #rowOf({ record, sealed }: Entry): RequestRow {
    if (sealed !== undefined) return this.#vault.row(sealed);
    if (record === undefined) throw new Error('a kept record is neither sealed nor open');
    return rowOf(record, this.#options.clock);
  }

  #await(entry: Entry): void {
    entry.isAwaiting = true;
    this.#awaiting.push({ entry, dueMs: this.#options.clock.now() + QUIET_MS });
  }

  #seal(entry: Entry, nowMs: number): void {
    const { record } = entry;
    entry.isAwaiting = false;
    if (entry.isForgotten || record === undefined) return;
    if (nowMs - entry.touchedMs < QUIET_MS || !isSettled(record)) {
      this.#await(entry);
      return;
    }
    entry.sealed = this.#vault.seal(record);
    if (entry.sealed === undefined) return;
    entry.record = undefined;
    this.#resize(entry, entry.sealed.bytes);
  }

  #unseal(entry: Entry, record: RequestRecord): void {
    if (entry.sealed !== undefined) this.#vault.release(entry.sealed);
    entry.sealed = undefined;
    entry.record = record;
  }

  #resize(entry: Entry, bytes: number): void {
    this.#bytes += bytes - entry.sizeBytes;
    entry.sizeBytes = bytes;
  }

  #evict(): void {
    const { capacity, maxBytes } = this.#options;
    while (this.#entries.size > capacity || this.#bytes > maxBytes) {
      const entry = this.#finished.shift();
      if (entry === undefined) return;
      this.#forget(entry);
      this.#evicted += 1;
    }
  }

  #forget(entry: Entry): void {
    this.#entries.delete(entry.id);
    this.#changes.remove(entry);
    this.#resize(entry, 0);
    entry.isForgotten = true;
    entry.record = undefined;
    if (entry.sealed !== undefined) this.#vault.release(entry.sealed);
    entry.sealed = undefined;
  }
}

/** Nothing more is expected of it. */
function isSettled({ isDirty, why, legs }: RequestRecord): boolean {
  if (isDirty || (why?.state === 'unavailable' && why.isPending)) return false;
  return legs.every(({ outcome }) => outcome !== 'running');
}

/** Cuts what came from engines to a bounded size. @returns about how many bytes the record takes. */
function compact(record: RequestRecord): number {
  let bytes = BASE_BYTES + (record.stream?.chunks.byteLength ?? 0) + record.captureBytes;
  if (record.why?.state === 'ready') bytes += record.why.bytes;
  for (const { candidates, excluded } of record.decisions) {
    bytes += (candidates.length + excluded.length) * CANDIDATE_BYTES;
    for (const { matchedTokens } of candidates) if (matchedTokens !== undefined) bytes += MATCH_BYTES;
  }
  for (const verdict of record.verdicts ?? []) bytes += VERDICT_BYTES + verdict.message.length;
  for (const leg of record.legs) {
    leg.transferParamsSent = bounded(leg.transferParamsSent);
    leg.transferParamsReceived = bounded(leg.transferParamsReceived);
    leg.metrics = bounded(leg.metrics);
    bytes += LEG_BYTES + sizeOfValue(leg.transferParamsSent) + sizeOfValue(leg.transferParamsReceived);
  }
  return bytes;
}

/** Short text stays as it is until somebody looks: parsing it here would make many objects out of one. */
function bounded(value: unknown): unknown {
  if (value === undefined || (typeof value === 'string' && value.length <= SHORT_TEXT)) return value;
  return boundValue(value);
}
