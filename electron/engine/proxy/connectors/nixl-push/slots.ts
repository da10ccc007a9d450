/**
 * Coordinates of prefill engines, per instance and data-parallel rank, as their own answers told them. They are what lets
 * both legs run at once; a slot without coordinates runs its requests one leg after the other, which is always correct.
 *
 * Invariants: coordinates are forgotten as soon as anything speaks against them: the instance left, went down, came with
 * another version, engine id or number of ranks, or a leg that used them failed. Bounded: the oldest slot leaves first.
 */
import type { Instance } from '../../../fleet/instance.ts';
import type { FleetRoster } from '../../../fleet/ports.ts';
import { withoutRank } from '../../../fleet/ranks.ts';
import { isSamePlace, renderHead, type Coordinates } from './coordinates.ts';

export interface SlotsOptions {
  readonly fleet: FleetRoster;
  /** Default 4096. */
  readonly capacity?: number;
  /** An instance went down or restarted: whoever waits for it waits for nothing. */
  onLost(instance: Instance, why: string): void;
}

export interface Slot {
  readonly instance: Instance;
  readonly rank: number | undefined;
  coordinates: Coordinates | undefined;
  /** Parameters of a decode leg up to the request id, while there are coordinates. */
  head: string;
  learnedAtUnixMs: number;
  /** Decode legs that were told these coordinates before prefill had answered. */
  used: number;
  /** Answers come from several ranks although none could be pinned: never both legs at once. */
  isUnsteady: boolean;
  /** Why the last coordinates were forgotten; undefined when they never were. */
  lost: string | undefined;
}

const CAPACITY = 4096;

export class Slots {
  readonly #capacity: number;
  /** Oldest first. Not reordered with use: that would cost every request. */
  readonly #slots = new Map<string, Slot>();
  /** What was last seen of an instance. */
  readonly #seen = new Map<Instance, Seen>();
  readonly #options: SlotsOptions;
  readonly #listeners: readonly (() => void)[];
  evicted = 0;
  learned = 0;
  forgotten = 0;

  constructor(options: SlotsOptions) {
    const { fleet, capacity = CAPACITY } = options;
    this.#capacity = capacity;
    this.#options = options;
    this.#listeners = [
      fleet.onRemoved((instance) => this.#removed(instance)),
      fleet.onChanged((instance) => this.#changed(instance)),
    ];
  }

  get capacity(): number {
    return this.#capacity;
  }

  list(): readonly Slot[] {
    return [...this.#slots.values()];
  }

  of(instance: Instance, rank: number | undefined): Slot {
    const key = `${instance.id} ${rank ?? ''}`;
    const known = this.#slots.get(key);
    // An instance that left and came back under its name is another one.
    if (known?.instance === instance) return known;
    const slot: Slot = { instance, rank, coordinates: undefined, head: '', learnedAtUnixMs: 0, used: 0, isUnsteady: false, lost: undefined };
    if (!this.#seen.has(instance)) this.#seen.set(instance, see(instance, undefined));
    this.#slots.set(key, slot);
    if (this.#slots.size > this.#capacity) this.#evict();
    return slot;
  }

  /** A prefill answer's coordinates. @returns whether they differ from those known. */
  learn(slot: Slot, found: Coordinates): boolean {
    const { coordinates: known } = slot;
    if (known !== undefined && isSamePlace(known, found)) return false;
    // Two ranks of one engine under one slot: whoever comes next may be answered by either.
    if (known !== undefined && known.engineId !== found.engineId && withoutRank(known.engineId) === withoutRank(found.engineId)) slot.isUnsteady = true;
    for (const other of this.#slots.values()) {
      // All ranks of an instance live and die together.
      if (other.instance === slot.instance && other !== slot && contradicts(withoutRank(found.engineId), other.coordinates)) this.#forget(other, `another rank answers as engine ${found.engineId}`);
    }
    slot.coordinates = found;
    slot.head = renderHead(found);
    slot.learnedAtUnixMs = Date.now();
    slot.used = 0;
    this.learned += 1;
    return known !== undefined;
  }

  /**
   * A try with the slot's coordinates failed, perhaps because the engine behind all ranks of the instance is another one by
   * now. The next request of each learns them again.
   */
  forget({ instance }: Slot, why: string): void {
    for (const slot of this.#slots.values()) if (slot.instance === instance) this.#forget(slot, why);
  }

  #forget(slot: Slot, why: string): void {
    if (slot.coordinates === undefined) return;
    slot.coordinates = undefined;
    slot.lost = why;
    this.forgotten += 1;
  }

  close(): void {
    for (const stop of this.#listeners) stop();
    this.#slots.clear();
    this.#seen.clear();
  }

  #removed(instance: Instance): void {
    for (const [key, slot] of this.#slots) if (slot.instance === instance) this.#slots.delete(key);
    this.#seen.delete(instance);
  }

  #changed(instance: Instance): void {
    const before = this.#seen.get(instance);
    if (before === undefined) return;
    const now = see(instance, before);
    this.#seen.set(instance, now);
    const loss = lossOf(before, now, instance);
    const hasOtherRanks = before.dpSize !== now.dpSize;
    for (const slot of this.#slots.values()) {
      if (slot.instance !== instance) continue;
      if (hasOtherRanks) slot.isUnsteady = false;
      if (loss !== undefined) this.#forget(slot, loss);
      else if (hasOtherRanks) this.#forget(slot, 'the number of ranks changed');
      else if (before.engineId !== now.engineId && contradicts(now.engineId, slot.coordinates)) this.#forget(slot, `/server_info says ${now.engineId}`);
    }
    if (loss !== undefined) this.#options.onLost(instance, loss);
  }

  #evict(): void {
    const [oldest] = this.#slots.keys();
    if (oldest === undefined) return;
    this.#slots.delete(oldest);
    this.evicted += 1;
  }
}

/** What a restart changes, or may be hidden behind; the last known value where the engine does not tell any more. */
interface Seen {
  readonly isDown: boolean;
  readonly version: string | undefined;
  readonly engineId: string | undefined;
  readonly dpSize: number;
}

function see({ state, version, transfer, dpSize }: Instance, before: Seen | undefined): Seen {
  return { isDown: state === 'down', version: version ?? before?.version, engineId: transfer?.engineId ?? before?.engineId, dpSize };
}

/** Why the engine is not, or may not be, the one it was. */
function lossOf(before: Seen, now: Seen, { stateReason }: Instance): string | undefined {
  if (now.isDown && !before.isDown) return `the instance went down${stateReason === undefined ? '' : `: ${stateReason}`}`;
  if (before.version !== undefined && before.version !== now.version) return `the instance restarted with version ${now.version ?? 'unknown'}`;
  if (before.engineId !== undefined && before.engineId !== now.engineId) return `the instance restarted as engine ${now.engineId ?? 'unknown'}`;
  return undefined;
}

/** @param engineId as the API server knows it, without the rank. */
function contradicts(engineId: string | undefined, coordinates: Coordinates | undefined): boolean {
  return engineId !== undefined && coordinates !== undefined && coordinates.engineId !== engineId && withoutRank(coordinates.engineId) !== engineId;
}
