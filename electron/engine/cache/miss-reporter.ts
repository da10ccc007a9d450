/**
 * Makes the report of one prompt, given its body: whose tokens they are, where they are to be had, and what the index says
 * of them as of the time that the prompt was scheduled. What its synchronous parts cost is told as it goes, for whoever
 * keeps a budget.
 */
import type { Confidence } from '#shared/cache.ts';
import type { RecordId, StreamId } from '#shared/ids.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { Instance } from '../fleet/instance.ts';
import type { KvEvents } from '../kv-events/kv-events.ts';
import { streamConfidence } from '../kv-index/confidence.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import { finishInSlices } from '../kv-index/subtree-counts.ts';
import type { LegRecord, RequestRecord } from '../telemetry/request-record.ts';
import type { RequestInit } from '../telemetry/trace.ts';
import type { CauseGrouper } from './cause-grouper.ts';
import type { EngineCall } from './engine-call.ts';
import { heldSteps } from './held-at-decode.ts';
import type { KeptMiss } from './kept-report.ts';
import { reportSteps } from './miss-report.ts';
import type { KeptPrompt } from './prompt-keeper.ts';
import { explainedApi, promptSource, saltOf, type PromptSource } from './prompt-source.ts';
import { canTell, promptTokens, type PromptAnswer, type PromptTokens } from './prompt-tokens.ts';

export interface MissReporterOptions {
  readonly index: KvIndex;
  readonly fleet: Pick<Fleet, 'get' | 'list'>;
  readonly kvEvents: Pick<KvEvents, 'streams' | 'streamsOf'>;
  readonly call: EngineCall;
  readonly grouper: CauseGrouper;
  readonly authorization: string | undefined;
  /** Gets the milliseconds that a part took. */
  readonly spent: (ms: number) => void;
}

/** A prompt, and the leg that computed it. */
export interface ComputedPrompt {
  readonly id: RecordId;
  readonly init: RequestInit;
  readonly model: string | undefined;
  /** Which of the request's legs. */
  readonly leg: number;
  readonly instance: Pick<LegRecord['instance'], 'id' | 'name'>;
  readonly rank: number | undefined;
  /** When the engine scheduled it, by our clock. */
  readonly atUnixMs: number;
  /** Tokens per block at that time; 0 or absent: those of the instance now. */
  readonly blockSize?: number;
}

export class MissReporter {
  readonly #options: MissReporterOptions;

  constructor(options: MissReporterOptions) {
    this.#options = options;
  }

  source(init: RequestInit, body: Buffer): PromptSource {
    const beganMs = performance.now();
    const source = promptSource(init, body);
    this.#options.spent(performance.now() - beganMs);
    return source;
  }

  hasStream({ instance }: Pick<ComputedPrompt, 'instance'>): boolean {
    return this.#options.kvEvents.streamsOf(instance.id).length > 0;
  }

  /** Whether some instance is up that may tell the tokens of such a request. */
  canAsk({ init, model }: Pick<ComputedPrompt, 'init' | 'model'>): boolean {
    const api = explainedApi(init);
    return (api === 'chat' || api === 'completions') && canTell(api, { call: this.#options.call, instances: this.#instances(model) });
  }

  /** Asks instances where the request itself does not tell. Never rejects. */
  async tokens(source: PromptSource, { init, model }: Pick<ComputedPrompt, 'init' | 'model'>): Promise<PromptAnswer> {
    const own = init.headers['authorization'];
    return await promptTokens(source, { call: this.#options.call, instances: this.#instances(model), authorization: typeof own === 'string' ? own : this.#options.authorization });
  }

  /** The model asked for, where that names an adapter of the instance. */
  adapterOf({ instance, model }: Pick<ComputedPrompt, 'instance' | 'model'>): string | undefined {
    const { fleet, index } = this.#options;
    return model !== undefined && fleet.get(instance.id)?.models[0] !== model && index.graph.extras.find({ lora: model }) !== undefined ? model : undefined;
  }

  async report(computed: ComputedPrompt, source: PromptSource, prompt: PromptTokens): Promise<KeptMiss> {
    const { fleet, index, spent } = this.#options;
    const { id, atUnixMs, instance, rank, leg, blockSize = 0 } = computed;
    return await finishInSlices(reportSteps(
      { request: id, prompt, atUnixMs, instance: instance.id, rank, lora: this.adapterOf(computed), salt: saltOf(source), leg, ...(blockSize > 0 && { blockSize }) },
      { index, roleOf: (of) => fleet.get(of)?.role, confidenceOf: this.#confidenceOf(), blockSizeOf: (of) => fleet.get(of)?.gauges?.blockSize },
    ), spent);
  }

  /** A report with what sums over many requests need: causes by name, and what the decode instance held. `mayAsk`: see CauseGrouper. */
  async whole(record: RequestRecord, computed: ComputedPrompt, asked: { readonly source: PromptSource; readonly prompt: PromptTokens; readonly mayAsk: () => boolean }): Promise<KeptMiss> {
    const { index, grouper, spent } = this.#options;
    const { source, prompt, mayAsk } = asked;
    const why = await this.report(computed, source, prompt);
    if (why.state !== 'ready') return why;
    const held = await finishInSlices(heldSteps(record, index, { prompt, lora: this.adapterOf(computed), salt: saltOf(source), confidenceOf: this.#confidenceOf() }), spent);
    const shares = await grouper.group(why.shares, { source, blockSize: why.report.blockSize ?? 0, mayAsk });
    return { ...why, shares, ...(held !== undefined && { held }) };
  }

  #confidenceOf(): (stream: StreamId) => Confidence {
    const views = this.#options.kvEvents.streams();
    return (stream) => streamConfidence(views.find(({ id }) => id === stream));
  }

  /** Who may be asked, best first. */
  #instances(model: string | undefined): Instance[] {
    return this.#options.fleet.list()
      .filter(({ state, role, models }) => state === 'up' && role !== 'encode' && (model === undefined || models.includes(model)))
      .toSorted((a, b) => a.inFlight - b.inFlight);
  }
}

/** Tokens that routing had are those an instance would be asked for again; of media only render tells the keys. */
export function routedTokens(source: PromptSource, { tokens, from }: KeptPrompt): PromptTokens | undefined {
  const isPlain = source.kind === 'text' || (source.kind === 'chat' && !source.hasMedia);
  return isPlain && tokens !== undefined && from !== undefined ? { tokens, from, media: [] } : undefined;
}

const reasons = new Map<string, KeptMiss>();

/** One object for all requests with a reason: they may be many. */
export function unavailable(reason: string): KeptMiss {
  const known = reasons.get(reason);
  if (known !== undefined) return known;
  const made: KeptMiss = { state: 'unavailable', reason, isPending: false };
  if (reasons.size < 1000) reasons.set(reason, made);
  return made;
}

export function noStream({ instance }: Pick<ComputedPrompt, 'instance'>): KeptMiss {
  return unavailable(`${instance.name} has no KV event stream, so nothing is known of its cache`);
}
