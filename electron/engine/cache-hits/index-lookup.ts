/**
 * The block index as routing sees it: what every watched stream holds of a prompt, with the confidence of that stream.
 * On the way of requests, so confidences are taken from the streams a few times a second, not for each.
 */
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { KvStreamView } from '#shared/kv.ts';
import type { Instance } from '../fleet/instance.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import type { InstancePrefix, PrefixLookup, PrefixQuery } from '../proxy/policies/prefix-lookup.ts';

const FRESH_MS = 250;

export interface IndexLookupOptions {
  readonly index: KvIndex;
  readonly fleet: { list(): readonly Pick<Instance, 'models'>[] };
  readonly kvEvents: { streams(): readonly Pick<KvStreamView, 'id' | 'instance' | 'rank' | 'confidence' | 'reasons'>[] };
  /** Monotonic milliseconds. Default: the system's. */
  readonly now?: () => number;
}

interface Watched {
  readonly id: StreamId;
  readonly instance: InstanceId;
  readonly rank: number;
  readonly hasOthers: boolean;
  readonly confidence: number;
  readonly doubt: string | undefined;
}

export class IndexLookup implements PrefixLookup {
  readonly #options: IndexLookupOptions;
  #streams: readonly Watched[] = [];
  #takenAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: IndexLookupOptions) {
    this.#options = options;
  }

  holdsAny(instances: readonly Pick<Instance, 'id'>[]): boolean {
    const { index } = this.#options;
    return this.#watched().some(({ id, instance, confidence }) => {
      if (confidence === 0 || !instances.some((one) => one.id === instance)) return false;
      return index.stream(id)?.residencies.some(({ isPrefix, era }) => isPrefix && era.count > 0) === true;
    });
  }

  prefix({ tokens, model, salt }: PrefixQuery): readonly InstancePrefix[] {
    const lora = model !== undefined && this.#isAdapter(model) ? model : undefined;
    const { paths } = this.#options.index.prefix(tokens, { lora, salt, withDivergence: false });
    const matched = new Map(paths.flatMap(({ matches }) => matches).map((match) => [match.stream, match]));
    return this.#watched().map(({ id, instance, rank, hasOthers, confidence, doubt }): InstancePrefix => {
      // A stream that has told no block yet has no block size, and is in no path.
      const match = matched.get(id);
      return {
        instance,
        ...(hasOthers && { rank }),
        matchedTokens: match?.tokens ?? 0,
        matchedBlocks: match?.blocks ?? 0,
        confidence,
        ...(doubt !== undefined && { doubt }),
      };
    });
  }

  /** Engines list the model they were started with first, adapters after it; blocks of adapters carry its name. */
  #isAdapter(model: string): boolean {
    const { index, fleet } = this.#options;
    return index.graph.extras.find({ lora: model }) !== undefined && fleet.list().every(({ models }) => models[0] !== model);
  }

  #watched(): readonly Watched[] {
    const nowMs = this.#options.now?.() ?? performance.now();
    if (nowMs - this.#takenAtMs < FRESH_MS) return this.#streams;
    this.#takenAtMs = nowMs;
    const streams = this.#options.kvEvents.streams();
    const ranks = new Map<InstanceId, number>();
    for (const { instance } of streams) ranks.set(instance, (ranks.get(instance) ?? 0) + 1);
    this.#streams = streams.map(({ id, instance, rank, confidence = 0, reasons }) => ({
      id, instance, rank, confidence, hasOthers: (ranks.get(instance) ?? 0) > 1, doubt: reasons?.[0]?.text,
    }));
    return this.#streams;
  }
}
