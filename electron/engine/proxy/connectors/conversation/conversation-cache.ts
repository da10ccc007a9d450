/**
 * What decode instances still hold of conversations: per conversation the kv_transfer_params of its last turns, for the
 * next turn's prefill to read from. Several are kept, because one id may cover more than one thread (an agent and its
 * helpers, a title made beside the chat): a turn takes the one it extends.
 *
 * Invariants: params are handed out once (the pull frees the blocks): whoever takes them removes them in the same turn
 * of the event loop. Entries live `ttlMs` from their last use; count and bytes are capped, and the conversation not used
 * for the longest time leaves first. Every way out is counted.
 */
import type { Instance } from '../../../fleet/instance.ts';
import { digestBytes, refusalOf, type KeptTurn, type Refusal, type SentTurn } from './turn.ts';

/** One turn's blocks on a decode instance. */
export interface HeldBlocks {
  readonly instance: Instance;
  readonly rank: number | undefined;
  /** The engine's own object, JSON text. */
  readonly params: Buffer;
  /** `remote_num_tokens`, when given. */
  readonly tokens: number | undefined;
  /** What a prompt must begin with to read them. */
  readonly turn: KeptTurn;
}

/** Blocks that were taken out, with the time they were kept at. */
export interface TakenBlocks extends HeldBlocks {
  readonly keptAtMs: number;
}

/** Where a conversation was decoded last. */
export interface LastDecode {
  readonly instance: Instance;
  readonly rank: number | undefined;
}

export interface Begun {
  readonly last: LastDecode | undefined;
  /** Taken out: the caller's alone. */
  readonly blocks: TakenBlocks | undefined;
  /** Why something was kept and may not be used. */
  readonly refusal: Refusal | undefined;
}

export interface ConversationRow {
  readonly id: string;
  readonly last: LastDecode | undefined;
  readonly turns: number;
  /** Tokens of the newest blocks kept; undefined when none are, or the engine did not say. */
  readonly tokens: number | undefined;
  readonly branches: number;
  /** Since the last use. */
  readonly ageMs: number;
  /** Until the newest blocks kept may no longer be read; undefined when none are kept. */
  readonly expiresInMs: number | undefined;
  readonly outcome: string;
}

export interface CacheCounts {
  kept: number;
  /** Blocks that prefill was given and, as far as it says, read. */
  reused: number;
  refused: number;
  /** Blocks given up because of their age. */
  expired: number;
  /** Conversations forgotten because of the caps. */
  evicted: number;
  /** Blocks given up because their instance left, went down or restarted. */
  lost: number;
}

export interface ConversationCacheOptions {
  readonly capacity: number;
  readonly ttlMs: number;
  /** Of params and digests. Default 64 MiB: beside 10,000 conversations, room for those with 100,000 tokens. */
  readonly maxBytes?: number;
  /** Monotonic milliseconds. Default performance.now. */
  readonly now?: () => number;
}

interface Branch {
  /** Or why they are not kept. */
  readonly held: HeldBlocks | Refusal;
  readonly keptAtMs: number;
  readonly bytes: number;
}

interface Conversation {
  readonly id: string;
  /** Newest last. */
  branches: Branch[];
  last: LastDecode | undefined;
  turns: number;
  touchedAtMs: number;
  outcome: string;
}

const MAX_BYTES = 64 * 1024 * 1024;
/** Threads under one id. */
const MAX_BRANCHES = 4;
/** Objects and map entries around the bytes that are counted one by one. */
const OVERHEAD_BYTES = 512;

export class ConversationCache {
  readonly ttlMs: number;
  readonly capacity: number;
  readonly counts: CacheCounts = { kept: 0, reused: 0, refused: 0, expired: 0, evicted: 0, lost: 0 };
  readonly #maxBytes: number;
  readonly #now: () => number;
  /** Not used for the longest time first. */
  readonly #byId = new Map<string, Conversation>();
  #bytes = 0;

  constructor({ capacity, ttlMs, maxBytes = MAX_BYTES, now = () => performance.now() }: ConversationCacheOptions) {
    this.capacity = capacity;
    this.ttlMs = ttlMs;
    this.#maxBytes = maxBytes;
    this.#now = now;
  }

  get size(): number {
    this.#expire();
    return this.#byId.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * A turn begins: takes out the blocks that its prompt extends.
   * @param isRepeat the same request again after a failure: not counted as another turn.
   */
  begin(id: string, sent: SentTurn, isRepeat = false): Begun {
    const conversation = this.#touch(id);
    if (!isRepeat) conversation.turns++;
    let refusal: Refusal | undefined;
    for (let at = conversation.branches.length - 1; at >= 0; at--) {
      const branch = conversation.branches[at];
      if (branch === undefined) continue;
      const { held } = branch;
      const reason = 'why' in held ? held : refusalOf(held.turn, sent);
      if (reason === undefined && !('why' in held)) {
        this.#remove(conversation, branch);
        conversation.outcome = `reads ${held.instance.name}'s blocks`;
        return { last: conversation.last, blocks: { ...held, keptAtMs: branch.keptAtMs }, refusal: undefined };
      }
      refusal ??= reason;
      // What could not be kept has been said once.
      if ('why' in held) this.#remove(conversation, branch);
    }
    if (!isRepeat) {
      if (refusal !== undefined) this.counts.refused++;
      conversation.outcome = refusal === undefined ? (conversation.turns === 1 ? 'first turn' : 'nothing was kept') : `refused: ${refusal.why}`;
    }
    return { last: conversation.last, blocks: undefined, refusal };
  }

  /** The blocks of an ended turn, or why they cannot be used. */
  keep(id: string, held: HeldBlocks | (Refusal & LastDecode)): void {
    const conversation = this.#touch(id);
    conversation.last = { instance: held.instance, rank: held.rank };
    const bytes = OVERHEAD_BYTES + ('why' in held ? 0 : held.params.length + digestBytes(held.turn));
    this.#add(conversation, { held, keptAtMs: this.#now(), bytes });
    if ('why' in held) {
      conversation.outcome = `not kept: ${held.why}`;
    } else {
      this.counts.kept++;
      conversation.outcome = `${conversation.outcome}; kept for the next turn`;
    }
  }

  /** What was taken has not been used: nobody saw it. Keeps its age. */
  giveBack(id: string, held: TakenBlocks): void {
    const bytes = OVERHEAD_BYTES + held.params.length + digestBytes(held.turn);
    this.#add(this.#touch(id), { held, keptAtMs: held.keptAtMs, bytes });
  }

  /** What became of a turn, for people. @param last where it was decoded, when that is new. */
  note(id: string, outcome: string, last?: LastDecode): void {
    const conversation = this.#byId.get(id);
    if (conversation === undefined) return;
    conversation.outcome = outcome;
    if (last !== undefined) conversation.last = last;
  }

  /** Blocks on `instance` are gone. @returns how many turns' were given up. */
  drop(instance: Instance, why: string): number {
    let lost = 0;
    for (const conversation of this.#byId.values()) {
      for (const branch of conversation.branches) {
        if ('why' in branch.held || branch.held.instance !== instance) continue;
        this.#remove(conversation, branch);
        conversation.outcome = `lost: ${why}`;
        lost++;
      }
    }
    this.counts.lost += lost;
    return lost;
  }

  /** The most recently used first. */
  rows(limit: number): readonly ConversationRow[] {
    this.#expire();
    const nowMs = this.#now();
    const newest = [...this.#byId.values()].slice(-limit).reverse();
    return newest.map((conversation) => {
      const branch = conversation.branches.findLast(({ held }) => !('why' in held));
      return {
        id: conversation.id,
        last: conversation.last,
        turns: conversation.turns,
        tokens: branch === undefined || 'why' in branch.held ? undefined : branch.held.tokens,
        branches: conversation.branches.length,
        ageMs: nowMs - conversation.touchedAtMs,
        expiresInMs: branch === undefined ? undefined : Math.max(0, branch.keptAtMs + this.ttlMs - nowMs),
        outcome: conversation.outcome,
      };
    });
  }

  /** Makes it the most recently used one; too old blocks are given up. */
  #touch(id: string): Conversation {
    this.#expire();
    const nowMs = this.#now();
    const conversation = this.#byId.get(id) ?? { id, branches: [], last: undefined, turns: 0, touchedAtMs: nowMs, outcome: 'new' };
    conversation.touchedAtMs = nowMs;
    for (const branch of conversation.branches) {
      if (branch.keptAtMs + this.ttlMs > nowMs) continue;
      this.#remove(conversation, branch);
      if (!('why' in branch.held)) this.counts.expired++;
    }
    this.#byId.delete(id);
    this.#byId.set(id, conversation);
    this.#evict();
    return conversation;
  }

  #add(conversation: Conversation, branch: Branch): void {
    conversation.branches.push(branch);
    this.#bytes += branch.bytes;
    const [oldest] = conversation.branches;
    if (conversation.branches.length > MAX_BRANCHES && oldest !== undefined) this.#remove(conversation, oldest);
    this.#evict();
  }

  /** Leaves the array that a caller may be walking over as it is. */
  #remove(conversation: Conversation, branch: Branch): void {
    conversation.branches = conversation.branches.filter((other) => other !== branch);
    this.#bytes -= branch.bytes;
  }

  #forget(conversation: Conversation): void {
    for (const branch of conversation.branches) this.#bytes -= branch.bytes;
    this.#byId.delete(conversation.id);
  }

  /** In the order of last use, so the first that is young enough ends the search. */
  #expire(): void {
    const limitMs = this.#now() - this.ttlMs;
    for (const conversation of this.#byId.values()) {
      if (conversation.touchedAtMs > limitMs) return;
      this.counts.expired += conversation.branches.filter(({ held }) => !('why' in held)).length;
      this.#forget(conversation);
    }
  }

  /** The one in hand is the last in order and stays. */
  #evict(): void {
    for (const conversation of this.#byId.values()) {
      const isWithin = this.#byId.size <= this.capacity && this.#bytes <= this.#maxBytes;
      if (isWithin || this.#byId.size === 1) return;
      this.counts.evicted++;
      this.#forget(conversation);
    }
  }
}
