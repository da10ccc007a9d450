/**
 * Which engine id belongs to which instance and rank, and what was before. An engine without a configured id makes up a
 * new one with each start (vllm/config/kv_transfer.py), so an id that gave way to another is a previous life.
 *
 * What an instance says itself (its answers, `/server_info`) makes an id current, also one that was current before:
 * operators do go back to an older configuration. What others say about it (a bootstrap table, a conversation) does not.
 * Bounded, and forgets instances that left.
 */
import type { InstanceId } from '#shared/ids.ts';
import type { TransferFacts } from '#shared/instance.ts';
import type { Instance } from '../../fleet/instance.ts';
import { withoutRank } from '../../fleet/ranks.ts';

const MAX_ENGINES = 8192;
const MAX_ID_LENGTH = 256;

export interface EngineNote {
  readonly instance: InstanceId;
  readonly instanceName: string;
  /** One engine may be in the fleet under two roles. */
  readonly origin: string;
  readonly rank: number;
  /** False: the instance and rank have another id now. */
  isCurrent: boolean;
}

/** What became known with an answer. */
export interface EngineNews {
  /** The instance whose current id this is as well. */
  readonly sharedWith?: string;
  /** The id it had until now; it is back at one it had before. */
  readonly alternatesWith?: string;
}

interface Life {
  readonly engineIds: Map<number, string>;
  facts: TransferFacts | undefined;
  /** Side channel port of rank 0, by the rank that was seen first. */
  port: { base: number; rank: number } | undefined;
}

const NO_NEWS: EngineNews = {};

export class EngineBook {
  readonly #lives = new Map<InstanceId, Life>();
  readonly #engines = new Map<string, EngineNote>();

  get size(): number {
    return this.#engines.size;
  }

  /** An instance told its engine id. */
  saw(instance: Instance, rank: number, engineId: string): EngineNews {
    if (engineId.length > MAX_ID_LENGTH) return NO_NEWS;
    const life = this.#lifeOf(instance);
    const before = life.engineIds.get(rank);
    const known = this.#engines.get(engineId);
    if (before === engineId && known?.instance === instance.id) return NO_NEWS;
    const news: { sharedWith?: string; alternatesWith?: string } = {};
    if (known !== undefined && known.origin !== instance.origin && known.isCurrent) news.sharedWith = known.instanceName;
    if (known?.instance === instance.id && !known.isCurrent && before !== undefined) news.alternatesWith = before;
    if (before !== undefined && before !== engineId) this.#retire(life, rank, before);
    life.engineIds.set(rank, engineId);
    this.#remember(engineId, { instance: instance.id, instanceName: instance.name, origin: instance.origin, rank, isCurrent: true });
    return news;
  }

  /** Others told an instance's engine id. A new one takes over; one from before changes nothing. */
  heard(instance: Instance, rank: number, engineId: string): void {
    if (!this.#engines.has(engineId)) this.saw(instance, rank, engineId);
  }

  /** Whose an engine id is or was; undefined when no instance ever told it. */
  find(engineId: string): EngineNote | undefined {
    return this.#engines.get(engineId);
  }

  /** Compares a side channel's port with what the other ranks use. @returns the port expected when it is another one. */
  expectedPort(instance: Instance, rank: number, port: number): number | undefined {
    const life = this.#lifeOf(instance);
    if (life.port === undefined || life.port.rank === rank) {
      life.port = { base: port - rank, rank };
      return undefined;
    }
    const expected = life.port.base + rank;
    return expected === port ? undefined : expected;
  }

  /** Takes in what `/server_info` says, when it said something new. */
  follow(instance: Instance): void {
    const { transfer } = instance;
    if (transfer === undefined) return;
    const life = this.#lifeOf(instance);
    if (life.facts === transfer) return;
    life.facts = transfer;
    const { engineId } = transfer;
    if (engineId === undefined) return;
    const base = withoutRank(engineId);
    for (const [rank, known] of life.engineIds) {
      if (withoutRank(known) === base) continue;
      this.#retire(life, rank, known);
      life.engineIds.delete(rank);
    }
    this.#revive(life, instance, base);
  }

  forget(id: InstanceId): void {
    this.#lives.delete(id);
    for (const [engineId, note] of this.#engines) if (note.instance === id) this.#engines.delete(engineId);
  }

  #lifeOf({ id }: Instance): Life {
    let life = this.#lives.get(id);
    if (life === undefined) {
      life = { engineIds: new Map(), facts: undefined, port: undefined };
      this.#lives.set(id, life);
    }
    return life;
  }

  #retire(life: Life, rank: number, engineId: string): void {
    const note = this.#engines.get(engineId);
    if (note !== undefined && note.rank === rank) note.isCurrent = false;
    // A new process may have been given another port.
    life.port = undefined;
  }

  /** Ids of an instance that had been given up, when it turns out to have them after all. */
  #revive(life: Life, { id }: Instance, base: string): void {
    for (const [engineId, note] of this.#engines) {
      if (note.instance !== id || note.isCurrent || withoutRank(engineId) !== base) continue;
      note.isCurrent = true;
      life.engineIds.set(note.rank, engineId);
    }
  }

  #remember(engineId: string, note: EngineNote): void {
    this.#engines.delete(engineId);
    this.#engines.set(engineId, note);
    if (this.#engines.size <= MAX_ENGINES) return;
    const [oldest] = this.#engines.keys();
    if (oldest !== undefined) this.#engines.delete(oldest);
  }
}
