/**
 * One-second series of the last 15 minutes: distributions, counters and gauges. Any window or step of a distribution is
 * the exact sum of its seconds, so percentiles are never averaged. Time only moves forward; a second that is late is
 * counted into the newest. Everything is allocated with the first sample.
 */
import type { Quantiles } from '#shared/quantiles.ts';
import type { BucketBatch } from './bucket-batch.ts';
import { bucketOf, LogHistogram } from './log-histogram.ts';

/** Seconds kept. */
export const SERIES_SECONDS = 900;
/** Window of the running summary, seconds. */
export const SUMMARY_SECONDS = 300;

/** An entry is a bucket (high 11 bits) and a count (low 21 bits); larger counts take several entries. */
const COUNT_BITS = 21;
const MAX_COUNT = 2 ** COUNT_BITS - 1;
/** 256 KiB per series: about 73 buckets in every second. Beyond it the oldest seconds go. */
const MAX_ENTRIES = 65_536;

/** A second that is later than this is one of a clock that was wrong. */
const MAX_LATE_SECONDS = 86_400;

interface Slots {
  /** Second held by slot `second % SERIES_SECONDS`; 0 = none. */
  readonly seconds: Uint32Array;
  readonly starts: Uint32Array;
  readonly lengths: Uint32Array;
  readonly maxima: Float64Array;
}

export class DistributionSeries {
  readonly #current = new LogHistogram();
  /** Samples of the last SUMMARY_SECONDS, the current second included; old seconds are taken out as time passes. */
  readonly #rolling = new LogHistogram();
  #currentSecond = 0;
  #slots: Slots | undefined;
  #entries = new Uint32Array(0);
  #used = 0;
  #droppedSeconds = 0;
  #summary: { readonly second: number; readonly n: number; readonly value: Quantiles | undefined } | undefined;

  /** Seconds lost to the size cap. */
  get droppedSeconds(): number {
    return this.#droppedSeconds;
  }

  /** Not-a-number is ignored. `bucket` saves the logarithm to who knows it. */
  record(second: number, value: number, bucket = bucketOf(value)): void {
    if (Number.isNaN(value)) return;
    this.#advance(second);
    this.#current.record(value, bucket);
    this.#rolling.add(bucket, 1);
  }

  /** Adds all samples of a batch to one second. */
  addBatch(second: number, batch: BucketBatch): void {
    if (batch.isEmpty) return;
    this.#advance(second);
    this.#current.addBatch(batch);
    batch.forEach((bucket, count) => this.#rolling.add(bucket, count));
  }

  /** Adds the seconds `from`..`to` (both included) to `into`. */
  mergeInto(into: LogHistogram, from: number, to: number): void {
    for (let second = Math.max(from, to - SERIES_SECONDS + 1); second <= to; second += 1) {
      if (second === this.#currentSecond) into.merge(this.#current);
      else this.#forEachEntry(second, (bucket, count) => into.add(bucket, count), (max) => into.raiseMax(max));
    }
  }

  /** Quantiles of the last SUMMARY_SECONDS; undefined without samples. Cheap enough for every state frame. */
  summary(second: number): Quantiles | undefined {
    this.#advance(second);
    const n = this.#rolling.n;
    const known = this.#summary;
    if (known !== undefined && known.second === second && known.n === n) return known.value;
    const value = this.#rolling.summary(SUMMARY_SECONDS, this.#rollingMax());
    this.#summary = { second, n, value };
    return value;
  }

  #rollingMax(): number {
    let max = this.#current.max ?? Number.NEGATIVE_INFINITY;
    const slots = this.#slots;
    if (slots === undefined) return max;
    for (let second = this.#currentSecond - SUMMARY_SECONDS + 1; second < this.#currentSecond; second += 1) {
      const slot = slotOf(second);
      if (slots.seconds[slot] === second) max = Math.max(max, slots.maxima[slot] ?? max);
    }
    return max;
  }

  #advance(second: number): void {
    const last = this.#currentSecond;
    if (second <= last) return;
    if (this.#current.n > 0) this.#close();
    this.#currentSecond = second;
    if (last === 0 || this.#rolling.n === 0) return;
    // What was in the window that ended with `last` and is not in the one that ends with `second`.
    const lastOut = Math.min(last, second - SUMMARY_SECONDS);
    for (let out = last - SUMMARY_SECONDS + 1; out <= lastOut; out += 1) this.#takeOut(out);
  }

  #takeOut(second: number): void {
    this.#forEachEntry(second, (bucket, count) => this.#rolling.add(bucket, -count));
  }

  /** Packs the current second away. */
  #close(): void {
    const slots = (this.#slots ??= {
      seconds: new Uint32Array(SERIES_SECONDS),
      starts: new Uint32Array(SERIES_SECONDS),
      lengths: new Uint32Array(SERIES_SECONDS),
      maxima: new Float64Array(SERIES_SECONDS),
    });
    const packed: number[] = [];
    for (const [bucket, count] of this.#current.buckets()) {
      for (let left = count; left > 0; left -= MAX_COUNT) packed.push(bucket * 2 ** COUNT_BITS + Math.min(left, MAX_COUNT));
    }
    const slot = slotOf(this.#currentSecond);
    slots.seconds[slot] = 0;
    if (this.#used + packed.length > this.#entries.length) this.#compact(slots, packed.length);
    this.#entries.set(packed, this.#used);
    slots.seconds[slot] = this.#currentSecond;
    slots.starts[slot] = this.#used;
    slots.lengths[slot] = packed.length;
    slots.maxima[slot] = this.#current.max ?? 0;
    this.#used += packed.length;
    this.#current.clear();
  }

  /** Makes room for `extra` entries: keeps the living seconds, newest first, as far as the cap allows. */
  #compact(slots: Slots, extra: number): void {
    const oldest = this.#currentSecond - SERIES_SECONDS + 1;
    const keep: number[] = [];
    let live = extra;
    for (let second = this.#currentSecond - 1; second >= oldest; second -= 1) {
      const slot = slotOf(second);
      if (slots.seconds[slot] !== second) continue;
      live += slots.lengths[slot] ?? 0;
      if (live <= MAX_ENTRIES) {
        keep.push(slot);
        continue;
      }
      live -= slots.lengths[slot] ?? 0;
      this.#droppedSeconds += 1;
      if (second > this.#currentSecond - SUMMARY_SECONDS) this.#takeOut(second);
      slots.seconds[slot] = 0;
    }
    const next = new Uint32Array(Math.min(MAX_ENTRIES, Math.max(64, live * 2)));
    let used = 0;
    for (const slot of keep.reverse()) {
      const start = slots.starts[slot] ?? 0;
      const length = slots.lengths[slot] ?? 0;
      next.set(this.#entries.subarray(start, start + length), used);
      slots.starts[slot] = used;
      used += length;
    }
    this.#entries = next;
    this.#used = used;
  }

  #forEachEntry(second: number, each: (bucket: number, count: number) => void, onMax?: (max: number) => void): void {
    const slots = this.#slots;
    const slot = slotOf(second);
    if (slots === undefined || slots.seconds[slot] !== second) return;
    const start = slots.starts[slot] ?? 0;
    const end = start + (slots.lengths[slot] ?? 0);
    for (let at = start; at < end; at += 1) {
      const entry = this.#entries[at] ?? 0;
      each(entry >>> COUNT_BITS, entry & MAX_COUNT);
    }
    onMax?.(slots.maxima[slot] ?? 0);
  }
}

function slotOf(second: number): number {
  return ((second % SERIES_SECONDS) + SERIES_SECONDS) % SERIES_SECONDS;
}

/** Counts per second. */
export class CounterSeries {
  readonly #slots: number;
  #seconds: Uint32Array | undefined;
  #values: Float64Array | undefined;

  /** @param slots seconds kept; default SERIES_SECONDS. */
  constructor(slots = SERIES_SECONDS) {
    this.#slots = slots;
  }

  add(second: number, count: number): void {
    this.#seconds ??= new Uint32Array(this.#slots);
    this.#values ??= new Float64Array(this.#slots);
    const slot = second % this.#slots;
    const held = this.#seconds[slot] ?? 0;
    if (held === second) this.#values[slot] = (this.#values[slot] ?? 0) + count;
    // What comes late, as by a replay, takes no newer second's place; a clock that was wrong by days does not keep it.
    else if (held < second || held - second > MAX_LATE_SECONDS) {
      this.#seconds[slot] = second;
      this.#values[slot] = count;
    }
  }

  /** Sum of the seconds `from`..`to`, both included. */
  sum(from: number, to: number): number {
    let total = 0;
    for (let second = Math.max(from, to - this.#slots + 1); second <= to; second += 1) {
      const slot = second % this.#slots;
      if (this.#seconds?.[slot] === second) total += this.#values?.[slot] ?? 0;
    }
    return total;
  }

  /** Whether anything was added in `from`..`to`, zeros included. */
  has(from: number, to: number): boolean {
    for (let second = from; second <= to; second += 1) if (this.#seconds?.[second % this.#slots] === second) return true;
    return false;
  }
}

/** The largest value seen in each second. */
export class GaugeSeries {
  #seconds: Uint32Array | undefined;
  #values: Float64Array | undefined;

  record(second: number, value: number): void {
    this.#seconds ??= new Uint32Array(SERIES_SECONDS);
    this.#values ??= new Float64Array(SERIES_SECONDS);
    const slot = second % SERIES_SECONDS;
    this.#values[slot] = this.#seconds[slot] === second ? Math.max(this.#values[slot] ?? value, value) : value;
    this.#seconds[slot] = second;
  }

  /** The largest value of the seconds `from`..`to`; undefined when none was recorded. */
  max(from: number, to: number): number | undefined {
    let max: number | undefined;
    for (let second = from; second <= to; second += 1) {
      const slot = second % SERIES_SECONDS;
      if (this.#seconds?.[slot] !== second) continue;
      const value = this.#values?.[slot] ?? 0;
      max = max === undefined ? value : Math.max(max, value);
    }
    return max;
  }
}
