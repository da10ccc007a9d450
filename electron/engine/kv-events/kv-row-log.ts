/**
 * The history behind the KV events view: a ring of packed rows, capped in rows and in bytes. Columns of numbers hold
 * what every row has, an arena its hashes and the tokens it can show, a ring the other tokens of recent rows
 * (token-tails.ts); only rows with extras (kv-row.ts) have an object of their own. So a full ring is a handful of objects
 * to the garbage collector, and recording an event copies some words. Columns are reserved at once and touched only as
 * they fill.
 *
 * Rows never change after they were appended, so the number of a row is its change number. Invariants: the kept rows
 * are the last `kept` numbers; `bytes` is the sum of what they were charged with.
 */
import type { KvRow } from '#shared/kv.ts';
import type { RingCounters } from '#shared/state.ts';
import type { RowLog } from '../row-log.ts';
import { NO_HASHES, hashCount } from './block-hashes.ts';
import { extrasBytes, extrasOf, keptHashes, keptHashWords, shownHashWords, shownTokens, toRow, type RowEvent, type RowExtras, type RowSource } from './kv-row.ts';
import { RowShapes, shapeBytes, type RowShape } from './row-shape.ts';
import { setUnshown } from './searched-fields.ts';
import { TokenTails } from './token-tails.ts';
import { WordArena } from './word-arena.ts';
import { NO_WORDS } from './word-run.ts';

export interface KvRowLogOptions {
  readonly capacity: number;
  /** Memory of the kept rows, about, bytes. The newest row is kept however large. */
  readonly maxBytes: number;
  /** Tokens kept for filters beyond those shown, over all rows; the oldest go first. Default 4 Mi, 16 MiB. */
  readonly tailTokens?: number;
  /** Messages lost to overload so far, for the counters. */
  readonly dropped: () => number;
}

/** A row's share of the columns. */
const ROW_BYTES = 4 * 8 + 4 * 4 + 1 + 2 * 8;
const TAIL_TOKENS = 4 * 1024 * 1024;

export class KvRowLog implements RowLog<KvRow> {
  readonly #options: KvRowLogOptions;
  readonly #seq: Float64Array;
  readonly #tsUnixMs: Float64Array;
  readonly #receivedAtUnixMs: Float64Array;
  readonly #hashCount: Uint32Array;
  readonly #tokenCount: Uint32Array;
  /** Reference into the arena; means nothing when the row has no words. */
  readonly #run: Uint32Array;
  readonly #charge: Uint32Array;
  /** 1 when two words of the parent follow those of the hashes. */
  readonly #hasParent: Uint8Array;
  /** This and the next grow with the first round, then stay. */
  #shape: (RowShape | undefined)[] = [];
  #extras: (RowExtras | undefined)[] = [];
  /** Place of the tokens not shown; -1: none. */
  readonly #tail: Float64Array;
  readonly #tails: TokenTails;
  readonly #arena = new WordArena();
  readonly #shapes = new RowShapes();
  #bytes = 0;
  /** Number of the newest row. */
  #last = 0;
  /** Rows before the ring was last empty: the next one took slot 0. */
  #base = 0;
  #kept = 0;
  #evicted = 0;
  #generation = 0;

  constructor(options: KvRowLogOptions) {
    const { capacity } = options;
    this.#options = options;
    this.#seq = new Float64Array(capacity);
    this.#tsUnixMs = new Float64Array(capacity);
    this.#receivedAtUnixMs = new Float64Array(capacity);
    this.#hashCount = new Uint32Array(capacity);
    this.#tokenCount = new Uint32Array(capacity);
    this.#run = new Uint32Array(capacity);
    this.#charge = new Uint32Array(capacity);
    this.#hasParent = new Uint8Array(capacity);
    this.#tail = new Float64Array(capacity);
    this.#tails = new TokenTails(options.tailTokens ?? TAIL_TOKENS);
  }

  /** Memory of the kept rows, about. */
  get bytes(): number {
    return this.#bytes;
  }

  append(source: RowSource, event: RowEvent): void {
    const isStored = event.kind === 'stored';
    const hashes = isStored || event.kind === 'removed' || event.kind === 'unknown' ? event.hashes : NO_HASHES;
    const parent = isStored ? event.parent : undefined;
    const tokens = isStored ? event.tokens : NO_WORDS;
    const hashWords = keptHashWords(hashCount(hashes));
    const tokenWords = shownTokens(tokens.length);
    const words = hashWords + (parent === undefined ? 0 : 2) + tokenWords;
    const extras = extrasOf(event);
    const known = this.#shapes.find(source, event);
    const shape = known ?? this.#shapes.create(source, event);
    const charge = ROW_BYTES + 4 * words + extrasBytes(extras) + (known === undefined ? shapeBytes(shape) : 0);
    this.#makeRoom(charge);
    this.#last += 1;
    this.#kept += 1;
    this.#bytes += charge;
    const slot = this.#slot(this.#last);
    this.#shape[slot] = shape;
    this.#extras[slot] = extras;
    this.#seq[slot] = source.seq ?? Number.NaN;
    this.#tsUnixMs[slot] = source.tsUnixMs ?? Number.NaN;
    this.#receivedAtUnixMs[slot] = source.receivedAtUnixMs;
    this.#hashCount[slot] = hashCount(hashes);
    this.#tokenCount[slot] = tokens.length;
    this.#charge[slot] = charge;
    this.#hasParent[slot] = parent === undefined ? 0 : 1;
    this.#tail[slot] = this.#tails.add(tokens, tokenWords);
    if (words === 0) return;
    this.#run[slot] = this.#arena.open(words);
    this.#arena.push(keptHashes(hashes), hashWords);
    if (parent !== undefined) this.#arena.push(parent, 2);
    this.#arena.push(tokens, tokenWords);
  }

  counters(): RingCounters {
    return {
      kept: this.#kept,
      capacity: this.#options.capacity,
      total: this.#last,
      evicted: this.#evicted,
      dropped: this.#options.dropped(),
    };
  }

  lastChange(): number {
    return this.#last;
  }

  *changedSince(change: number): Generator<KvRow> {
    const last = this.#last;
    for (let n = Math.max(change, last - this.#kept) + 1; n <= last; n += 1) {
      // Whoever reads may append between two rows, which evicts.
      if (n > this.#last - this.#kept) yield this.#read(n);
    }
  }

  rows(): Iterable<KvRow> {
    return this.changedSince(0);
  }

  *numbers(): Generator<number> {
    for (let n = this.#last - this.#kept + 1; n <= this.#last; n += 1) yield n;
  }

  generation(): number {
    return this.#generation;
  }

  clear(): number {
    const cleared = this.#kept;
    this.#kept = 0;
    this.#bytes = 0;
    this.#base = this.#last;
    this.#shape = [];
    this.#extras = [];
    this.#arena.clear();
    this.#tails.clear();
    this.#generation += 1;
    return cleared;
  }

  #slot(n: number): number {
    return (n - this.#base - 1) % this.#options.capacity;
  }

  #makeRoom(bytes: number): void {
    const { capacity, maxBytes } = this.#options;
    while (this.#kept > 0 && (this.#kept >= capacity || this.#bytes + bytes > maxBytes)) {
      this.#dropOldest();
      this.#evicted += 1;
    }
  }

  #dropOldest(): void {
    const slot = this.#slot(this.#last - this.#kept + 1);
    this.#bytes -= this.#charge[slot] ?? 0;
    if (this.#words(slot) > 0) this.#arena.release(this.#run[slot] ?? 0);
    this.#shape[slot] = undefined;
    this.#extras[slot] = undefined;
    this.#kept -= 1;
  }

  /** Words of a row in the arena. */
  #words(slot: number): number {
    return keptHashWords(this.#hashCount[slot] ?? 0) + 2 * (this.#hasParent[slot] ?? 0) + shownTokens(this.#tokenCount[slot] ?? 0);
  }

  #read(n: number): KvRow {
    const slot = this.#slot(n);
    const shape = this.#shape[slot];
    if (shape === undefined) throw new Error(`row ${n} is not kept`);
    const length = this.#words(slot);
    const words = length === 0 ? NO_WORDS.words : this.#arena.read(this.#run[slot] ?? 0, length);
    const count = this.#hashCount[slot] ?? 0;
    const tokenCount = this.#tokenCount[slot] ?? 0;
    const row = toRow({
      n,
      shape,
      seq: this.#seq[slot] ?? Number.NaN,
      tsUnixMs: this.#tsUnixMs[slot] ?? Number.NaN,
      receivedAtUnixMs: this.#receivedAtUnixMs[slot] ?? 0,
      hashCount: count,
      tokenCount,
      hasParent: this.#hasParent[slot] === 1,
      words,
      extras: this.#extras[slot],
    });
    const hashes = words.subarray(shownHashWords(count), keptHashWords(count));
    const tokens = this.#tails.read(this.#tail[slot] ?? -1, tokenCount - shownTokens(tokenCount)) ?? NO_WORDS.words;
    if (hashes.length + tokens.length > 0) setUnshown(row, { hashes, tokens, areDigests: this.#extras[slot]?.digests !== undefined });
    return row;
  }
}
