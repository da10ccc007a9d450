/**
 * Explains requests that were not explained by themselves when somebody opens them: their prompts are kept for that
 * (prompt-keeper.ts), and the index answers as of the time they were scheduled, from what it remembers. What it has
 * forgotten is unknown in the report; what no instance can tell has a reason.
 *
 * People open what is slow or odd, so these reports are told apart: they stay with the record, and count in no sum. Engines
 * are asked for at most two at a time, and for so many a second, whoever asks.
 */
import { errorMessage } from '#shared/errors.ts';
import type { RecordId } from '#shared/ids.ts';
import type { RequestDetail } from '#shared/request.ts';
import type { Logger } from '../log.ts';
import type { Allowance } from './allowance.ts';
import type { KeptMiss } from './kept-report.ts';
import { noStream, routedTokens, unavailable, type ComputedPrompt, type MissReporter } from './miss-reporter.ts';
import type { PromptKeeper, SparePrompt } from './prompt-keeper.ts';

/** Where records are. */
export interface OpenedRecords {
  detail(id: RecordId): RequestDetail | undefined;
  /** Puts a report with a record, if that is still kept. */
  explain(id: RecordId, why: KeptMiss): void;
}

export interface OpenedRequestsOptions {
  readonly keeper: PromptKeeper;
  readonly reporter: MissReporter;
  /** Requests explained per second. */
  readonly allowance: Allowance;
  readonly logger: Logger;
}

interface Opened {
  readonly id: RecordId;
  readonly records: OpenedRecords;
  readonly done: (why: KeptMiss) => void;
}

const AT_ONCE = 2;
const MAX_WAITING = 256;
/** How long one answer waits for its report. */
const PATIENCE_MS = 1000;
/** How long a failure is the answer, before it is tried again. */
const FAILED_MS = 5000;
const RETRY_MS = 50;
const MAX_FAILED = 256;

const PENDING: KeptMiss = { state: 'unavailable', reason: 'the request is being explained, since it was opened; ask again in a moment', isPending: true };

export class OpenedRequests {
  readonly #options: OpenedRequestsOptions;
  readonly #running = new Map<RecordId, Promise<KeptMiss>>();
  readonly #failed = new Map<RecordId, { readonly why: KeptMiss; readonly untilMs: number }>();
  #queue: Opened[] = [];
  #busy = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: OpenedRequestsOptions) {
    this.#options = options;
  }

  /** Undefined: its prompt is not kept. Waits a moment for the report. */
  async why(id: RecordId, records: OpenedRecords): Promise<KeptMiss | undefined> {
    const nowMs = performance.now();
    const failed = this.#failed.get(id);
    if (failed !== undefined && failed.untilMs > nowMs) return failed.why;
    let running = this.#running.get(id);
    if (running === undefined) {
      if (this.#options.keeper.spare(id) === undefined) return undefined;
      if (this.#queue.length >= MAX_WAITING) return PENDING;
      running = new Promise<KeptMiss>((done) => {
        this.#queue.push({ id, records, done });
      });
      this.#running.set(id, running);
      this.#next();
    }
    return await withPatience(running);
  }

  /** Whoever waits is told `why`. */
  clear(why: KeptMiss): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const { id, done } of this.#queue.splice(0)) {
      this.#running.delete(id);
      done(why);
    }
  }

  #next(): void {
    while (this.#busy < AT_ONCE && this.#queue.length > 0) {
      if (!this.#options.allowance.take()) {
        this.#timer ??= setTimeout(() => {
          this.#timer = undefined;
          this.#next();
        }, RETRY_MS).unref();
        return;
      }
      const opened = this.#queue.shift();
      if (opened === undefined) return;
      this.#busy += 1;
      void this.#run(opened);
    }
  }

  async #run({ id, records, done }: Opened): Promise<void> {
    const { keeper, logger } = this.#options;
    let why: KeptMiss;
    try {
      why = await this.#reportOf(id, records);
    } catch (error) {
      logger.error({ request: id, error: errorMessage(error) }, 'a request could not be explained');
      why = unavailable(`explaining it failed: ${errorMessage(error)}`);
    }
    if (why.state === 'ready') {
      records.explain(id, why);
      keeper.dropSpare(id);
    } else {
      this.#remember(id, why);
    }
    this.#busy -= 1;
    this.#running.delete(id);
    done(why);
    this.#next();
  }

  async #reportOf(id: RecordId, records: OpenedRecords): Promise<KeptMiss> {
    const { keeper, reporter } = this.#options;
    const spare = keeper.spare(id);
    const computed = spare === undefined ? undefined : computedOf(id, spare, records.detail(id));
    if (spare === undefined || computed === undefined) return unavailable('its prompt had to give way to newer ones while it waited');
    if (!reporter.hasStream(computed)) return noStream(computed);
    const source = reporter.source(computed.init, spare.body);
    if (source.kind === 'none') return unavailable(source.reason);
    const routed = routedTokens(source, spare);
    const answer = routed === undefined ? await reporter.tokens(source, computed) : { ok: true as const, prompt: routed };
    if (!answer.ok) return unavailable(`${answer.reason}; and the events that followed it are remembered for a moment only`);
    const why = await reporter.report(computed, source, answer.prompt);
    // What sums need is left out: it counts in none.
    return why.state === 'ready' ? { ...why, report: { ...why.report, isOpened: true }, shares: [] } : why;
  }

  #remember(id: RecordId, why: KeptMiss): void {
    const nowMs = performance.now();
    for (const [known, { untilMs }] of this.#failed) if (untilMs <= nowMs || this.#failed.size >= MAX_FAILED) this.#failed.delete(known);
    this.#failed.set(id, { why, untilMs: nowMs + FAILED_MS });
  }
}

/** Undefined when the record is gone. */
function computedOf(id: RecordId, { facts }: SparePrompt, detail: RequestDetail | undefined): ComputedPrompt | undefined {
  const leg = detail?.legs[facts.leg];
  if (leg === undefined) return undefined;
  const { instance, instanceName: name, rank, engineMetrics, sentMs, firstByteMs = sentMs } = leg;
  return {
    id, init: facts.init, model: facts.model, leg: facts.leg, instance: { id: instance, name }, rank,
    atUnixMs: scheduledAt(facts.sentAtUnixMs, { queueMs: engineMetrics?.queueMs, waitedMs: firstByteMs - sentMs }), blockSize: facts.blockSize,
  };
}

/** Between sending and scheduling, as the engine told it, blocks that came were found. A queue longer than the answer took is no queue. */
export function scheduledAt(sentAtUnixMs: number, { queueMs = 0, waitedMs }: { readonly queueMs: number | undefined; readonly waitedMs: number }): number {
  return queueMs <= waitedMs ? sentAtUnixMs + queueMs : sentAtUnixMs;
}

async function withPatience(running: Promise<KeptMiss>): Promise<KeptMiss> {
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<KeptMiss>((resolve) => {
    timer = setTimeout(() => resolve(PENDING), PATIENCE_MS);
  });
  try {
    return await Promise.race([running, patience]);
  } finally {
    clearTimeout(timer);
  }
}
