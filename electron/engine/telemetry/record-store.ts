/**
 * The bounded history of requests. Finished records go when there are too many or they take too much memory, oldest
 * finished first, and are counted; running ones stay. Beyond a hard limit of running ones new requests are not recorded,
 * and that is counted too.
 */
import type { RecordId } from '#shared/ids.ts';
import type { RequestRow } from '#shared/request.ts';
import type { RingCounters } from '#shared/state.ts';
import type { RowLog } from '../row-log.ts';
import { boundValue, sizeOfValue } from './bound-value.ts';
import { ChangeList } from './change-list.ts';
import { Fifo } from './fifo.ts';
import { rowOf } from './materialise.ts';
import type { Clock } from './clock.ts';
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

export class RecordStore implements RowLog<RequestRow> {
  readonly #options: RecordStoreOptions;
  readonly #records = new Map<RecordId, RequestRecord>();
  readonly #changes = new ChangeList<RequestRecord>();
  readonly #finished = new Fifo<RequestRecord>();
  #bytes = 0;
  #total = 0;
  #evicted = 0;
  #dropped = 0;
  #generation = 0;

  constructor(options: RecordStoreOptions) {
    this.#options = options;
  }

  /** Whether one more running request may be recorded; counts a drop when not. */
  hasRoom(): boolean {
    const running = this.#records.size - this.#finished.length;
    if (running < this.#options.capacity * RUNNING_FACTOR) return true;
    this.#dropped += 1;
    return false;
  }

  get(id: RecordId): RequestRecord | undefined {
    return this.#records.get(id);
  }

  add(record: RequestRecord): void {
    this.#records.set(record.id, record);
    this.#total += 1;
    this.#evict();
  }

  /** The record has news and takes its place at the end of the changes. */
  touch(record: RequestRecord): void {
    record.row = undefined;
    if (this.#records.has(record.id)) this.#changes.touch(record);
  }

  /** A record ended and will hardly grow any more: counts its memory. Again after late facts. */
  finish(record: RequestRecord): void {
    if (!this.#records.has(record.id)) return;
    record.stream?.chunks.trim();
    if (!record.isFinished) {
      record.isFinished = true;
      this.#finished.push(record);
    }
    this.#bytes -= record.sizeBytes;
    record.sizeBytes = compact(record);
    this.#bytes += record.sizeBytes;
    this.#evict();
  }

  counters(): RingCounters {
    return { kept: this.#records.size, capacity: this.#options.capacity, total: this.#total, evicted: this.#evicted, dropped: this.#dropped };
  }

  lastChange(): number {
    this.#options.settle();
    return this.#changes.last;
  }

  changedSince(change: number): RequestRow[] {
    this.#options.settle();
    return this.#changes.since(change).map((record) => rowOf(record, this.#options.clock));
  }

  *rows(): Generator<RequestRow> {
    this.#options.settle();
    for (const record of this.#records.values()) yield rowOf(record, this.#options.clock);
  }

  records(): Iterable<RequestRecord> {
    return this.#records.values();
  }

  generation(): number {
    return this.#generation;
  }

  clear(): number {
    const cleared = this.#finished.length;
    for (let record = this.#finished.shift(); record !== undefined; record = this.#finished.shift()) this.#forget(record);
    this.#generation += 1;
    return cleared;
  }

  #evict(): void {
    const { capacity, maxBytes } = this.#options;
    while (this.#records.size > capacity || this.#bytes > maxBytes) {
      const record = this.#finished.shift();
      if (record === undefined) return;
      this.#forget(record);
      this.#evicted += 1;
    }
  }

  #forget(record: RequestRecord): void {
    this.#records.delete(record.id);
    this.#changes.remove(record);
    this.#bytes -= record.sizeBytes;
  }
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
