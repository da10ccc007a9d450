/**
 * Tokens of prompts that no instance can render or tokenise, from the blocks stored while they were computed: gathers what
 * event-tokens.ts decides on. What was stored is noted soon after the answer began, since it is remembered for a moment
 * only; the decision may wait for the answer's end, which brings the usage.
 *
 * Legs that ran beside a request are those seen through pdscope. Bounded: the latest legs are remembered; when a request
 * was sent before one ended that is forgotten, others are taken to have run.
 */
import type { InstanceId } from '#shared/ids.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import type { LegRecord } from '../telemetry/request-record.ts';
import { eventTokens, type EventQuestion } from './event-tokens.ts';
import type { PromptAnswer } from './prompt-tokens.ts';
import type { RecentStores } from './recent-stores.ts';
import type { ReuseAnnouncers } from './reuse-announcers.ts';

export interface EventFallbackOptions {
  readonly index: KvIndex;
  readonly stores: RecentStores;
  readonly fleet: Pick<Fleet, 'get'>;
  /** Engines that publish blocks that requests found, too. */
  readonly announcers: Pick<ReuseAnnouncers, 'isAnnouncing'>;
}

/** What happened on an instance while it computed a prompt. */
export interface Meanwhile {
  readonly spans: EventQuestion['spans'];
  /** Legs that ran there, too; undefined for one of which nothing is known. */
  readonly others: readonly (LegRecord | undefined)[];
}

export type PromptKeysAsked = Pick<EventQuestion, 'salt' | 'lora' | 'sessionId'>;

/** Legs remembered, of all instances. */
const MAX_LEGS = 256;
/** Others than this are too many to tell apart. */
const MAX_OTHERS = 32;

export class EventFallback {
  readonly #options: EventFallbackOptions;
  #legs: LegRecord[] = [];
  /** Legs that ended up to here may be forgotten, by the clock of records. */
  #forgottenMs = Number.NEGATIVE_INFINITY;

  constructor(options: EventFallbackOptions) {
    this.#options = options;
  }

  /** A leg that may store blocks: when its answer begins, or at its end when none began. */
  seen(leg: LegRecord): void {
    if (leg.kind === 'encode' || leg.kind === 'render') return;
    this.#legs.push(leg);
    if (this.#legs.length > MAX_LEGS * 2) this.#forget(MAX_LEGS);
  }

  /** Legs that answered or ended lately, oldest first. */
  get legs(): readonly LegRecord[] {
    return this.#legs;
  }

  /** Stores and legs from when the leg was sent up to now, as pdscope's clock counts. */
  meanwhile(leg: LegRecord, sentAtUnixMs: number): Meanwhile {
    const { index, stores, fleet } = this.#options;
    const { id } = leg.instance;
    const streams = index.streams.filter(({ identity, isClosed }) => identity.instance === id && !isClosed && (leg.rank === undefined || identity.rank === leg.rank));
    const sentMs = sentAt(leg);
    const known = this.#legs.filter((other) => other !== leg && other.instance.id === id && (leg.rank === undefined || other.rank === undefined || other.rank === leg.rank));
    const beside = known.filter((other) => (endedAt(other) ?? Number.POSITIVE_INFINITY) >= sentMs);
    const others: (LegRecord | undefined)[] = beside.slice(0, MAX_OTHERS);
    if (beside.length > MAX_OTHERS || this.#forgottenMs >= sentMs || this.#hasUnseen(id, known, leg, fleet)) others.push(undefined);
    return { spans: streams.map((stream) => ({ stream, ...stores.between(stream.identity.id, sentAtUnixMs, Number.POSITIVE_INFINITY) })), others };
  }

  ask(leg: LegRecord, { spans, others }: Meanwhile, keys: PromptKeysAsked): PromptAnswer {
    const { index, announcers } = this.#options;
    return eventTokens(index.graph, {
      ...keys, spans,
      promptTokens: leg.usage?.promptTokens,
      cachedTokens: leg.usage?.cachedTokens,
      isGenerating: leg.kind !== 'prefill',
      others: others.map((other) => (other === undefined ? undefined : storedAtMost(other))),
      isReporting: announcers.isAnnouncing(leg.instance.id, Date.now()),
    });
  }

  clear(): void {
    this.#forget(this.#legs.length);
  }

  /** The oldest. One that runs still counts among those in flight; it ends after now. */
  #forget(count: number): void {
    for (const old of this.#legs.slice(0, count)) this.#forgottenMs = Math.max(this.#forgottenMs, endedAt(old) ?? Number.NEGATIVE_INFINITY);
    const running = this.#legs.slice(0, count).filter((old) => endedAt(old) === undefined).slice(-MAX_LEGS);
    this.#legs = [...running, ...this.#legs.slice(count)];
  }

  /** Legs under way there that have not begun to answer. */
  #hasUnseen(instance: InstanceId, known: readonly LegRecord[], leg: LegRecord, fleet: Pick<Fleet, 'get'>): boolean {
    const answering = known.filter(({ outcome }) => outcome === 'running').length + (leg.outcome === 'running' ? 1 : 0);
    return (fleet.get(instance)?.inFlight ?? 0) > answering;
  }
}

function sentAt({ record, sentMs }: LegRecord): number {
  return record.receivedMs + sentMs;
}

/** Undefined while it runs. */
function endedAt({ record, endMs }: LegRecord): number | undefined {
  return endMs === undefined ? undefined : record.receivedMs + endMs;
}

/** Tokens whose blocks a leg can have stored; undefined while its engine has not told. */
function storedAtMost({ usage, outcome }: LegRecord): number | undefined {
  if (outcome === 'running' || usage?.promptTokens === undefined || usage.completionTokens === undefined) return undefined;
  return usage.promptTokens + usage.completionTokens;
}
