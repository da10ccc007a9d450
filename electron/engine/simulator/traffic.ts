/**
 * Ordinary clients in front of the proxy: Poisson arrivals of a seeded mix over kept-alive connections. Concurrency is
 * bounded, and when the proxy is down the clients back off instead of hammering it. Knows nothing of instances.
 */
import { Pool } from 'undici';
import { API_PATHS } from '#shared/vocabulary.ts';
import { createPrng, type Prng } from './prng.ts';
import { TrafficMix, type PlannedRequest, type TrafficFlavour } from './traffic-mix.ts';

export interface TrafficOptions extends TrafficFlavour {
  /** Origin of the proxy, e.g. `http://127.0.0.1:8000`. */
  readonly baseUrl: string;
  /** 0 = silent until `setRate`. */
  readonly requestsPerSecond: number;
  /** Default 1. */
  readonly seed?: number;
  readonly apiKey?: string;
  /** Default: none is named, and the instance takes its own. */
  readonly model?: string;
  /** Requests under way at once; further arrivals are skipped and counted. Default 256. */
  readonly maxInFlight?: number;
}

export interface TrafficStats {
  readonly requestsPerSecond: number;
  readonly inFlight: number;
  readonly sent: number;
  /** Answered with 200, to the end. */
  readonly completed: number;
  /** Other statuses, broken streams and failed connections. */
  readonly failed: number;
  /** Left on purpose before the end. */
  readonly aborted: number;
  /** Arrivals dropped because too many requests were under way. */
  readonly skipped: number;
  readonly isBackingOff: boolean;
}

export interface Traffic {
  /** 0 pauses; what is under way goes on. */
  setRate(requestsPerSecond: number): void;
  /** What clients ask from now on. */
  setFlavour(flavour: TrafficFlavour): void;
  stats(): TrafficStats;
  /** Clients under way leave. Resolves when they are gone; others come as before. */
  leave(): Promise<void>;
  /** Ends everything under way. */
  close(): Promise<void>;
}

const MAX_IN_FLIGHT = 256;
/** One failing instance among several must not silence the demo; a proxy that is down should. */
const FAILURES_BEFORE_BACKOFF = 4;
const FIRST_BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 5000;
/** Arrivals that are overdue by more than this were lost to a stall, and are not made up for. */
const MAX_LAG_MS = 250;
const MAX_ANSWER_CHARS = 64_000;

type Outcome = 'completed' | 'failed' | 'aborted';

class RunningTraffic implements Traffic {
  readonly #options: TrafficOptions;
  readonly #prng: Prng;
  readonly #mix: TrafficMix;
  readonly #pool: Pool;
  readonly #counts = { sent: 0, completed: 0, failed: 0, aborted: 0, skipped: 0 };
  readonly #open = new Map<AbortController, Promise<void>>();
  #rate: number;
  #timer: NodeJS.Timeout | undefined;
  #nextAtMs = 0;
  #failuresInRow = 0;
  #backoffMs = 0;
  #quietUntilMs = 0;
  #isClosed = false;

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#prng = createPrng(options.seed ?? 1);
    this.#mix = new TrafficMix(this.#prng, options.model, options);
    this.#pool = new Pool(new URL(options.baseUrl).origin, {
      connections: options.maxInFlight ?? MAX_IN_FLIGHT,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    this.#rate = options.requestsPerSecond;
    this.#restartClock();
  }

  setRate(requestsPerSecond: number): void {
    this.#rate = requestsPerSecond;
    if (!this.#isClosed) this.#restartClock();
  }

  setFlavour(flavour: TrafficFlavour): void {
    this.#mix.setFlavour(flavour);
  }

  stats(): TrafficStats {
    return {
      requestsPerSecond: this.#rate,
      inFlight: this.#open.size,
      ...this.#counts,
      isBackingOff: performance.now() < this.#quietUntilMs,
    };
  }

  async leave(): Promise<void> {
    const open = [...this.#open];
    for (const [controller] of open) controller.abort();
    await Promise.allSettled(open.map(([, done]) => done));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.leave();
    await this.#pool.destroy();
  }

  #restartClock(): void {
    clearTimeout(this.#timer);
    if (this.#rate <= 0) return;
    this.#nextAtMs = performance.now() + this.#gapMs();
    this.#arm();
  }

  #gapMs(): number {
    return (-Math.log(1 - this.#prng.next()) * 1000) / this.#rate;
  }

  #arm(): void {
    const delayMs = Math.max(this.#nextAtMs, this.#quietUntilMs) - performance.now();
    this.#timer = setTimeout(() => this.#tick(), Math.max(1, delayMs));
  }

  #tick(): void {
    const nowMs = performance.now();
    this.#nextAtMs = Math.max(this.#nextAtMs, nowMs - MAX_LAG_MS);
    while (this.#nextAtMs <= nowMs && nowMs >= this.#quietUntilMs) {
      this.#nextAtMs += this.#gapMs();
      this.#arrive();
    }
    this.#arm();
  }

  #arrive(): void {
    if (this.#open.size >= (this.#options.maxInFlight ?? MAX_IN_FLIGHT)) {
      this.#counts.skipped += 1;
      return;
    }
    this.#counts.sent += 1;
    const controller = new AbortController();
    this.#open.set(controller, this.#run(this.#mix.next(), controller));
  }

  async #run(planned: PlannedRequest, controller: AbortController): Promise<void> {
    const timer =
      planned.abortAfterMs === undefined ? undefined : setTimeout(() => controller.abort(), planned.abortAfterMs);
    let outcome: Outcome = 'failed';
    let text: string | undefined;
    try {
      text = await this.#exchange(planned, controller.signal);
      outcome = text === undefined ? 'failed' : 'completed';
    } catch {
      // Which failure it was is the proxy's to show; a client only sees that its request did not work.
      outcome = controller.signal.aborted ? 'aborted' : 'failed';
    } finally {
      clearTimeout(timer);
      this.#open.delete(controller);
      this.#counts[outcome] += 1;
      this.#adjustBackoff(outcome);
      planned.answered(text);
    }
  }

  /** The answer's text; undefined for an answer that is not a success. */
  async #exchange({ api, body, isStream }: PlannedRequest, signal: AbortSignal): Promise<string | undefined> {
    const { apiKey } = this.#options;
    const response = await this.#pool.request({
      method: 'POST',
      path: API_PATHS[api],
      headers: {
        'content-type': 'application/json',
        'user-agent': 'pdscope-demo-traffic',
        ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
      },
      body: JSON.stringify(body),
      signal,
    });
    const raw = await response.body.text();
    if (response.statusCode !== 200) return undefined;
    return isStream ? streamText(raw) : answerText(raw);
  }

  #adjustBackoff(outcome: Outcome): void {
    if (outcome === 'completed') {
      this.#failuresInRow = 0;
      this.#backoffMs = 0;
    }
    if (outcome !== 'failed') return;
    this.#failuresInRow += 1;
    if (this.#failuresInRow < FAILURES_BEFORE_BACKOFF || performance.now() < this.#quietUntilMs) return;
    this.#backoffMs = Math.min(this.#backoffMs === 0 ? FIRST_BACKOFF_MS : this.#backoffMs * 2, MAX_BACKOFF_MS);
    this.#quietUntilMs = performance.now() + this.#backoffMs;
  }
}

interface AnswerShape {
  readonly error?: unknown;
  readonly choices?: readonly {
    readonly text?: string;
    readonly message?: { readonly content?: string | null };
    readonly delta?: { readonly content?: string };
  }[];
}

function choiceText(value: AnswerShape): string {
  const choice = value.choices?.[0];
  return choice?.text ?? choice?.message?.content ?? choice?.delta?.content ?? '';
}

function answerText(raw: string): string | undefined {
  if (raw === '') return undefined;
  return choiceText(JSON.parse(raw) as AnswerShape).slice(0, MAX_ANSWER_CHARS);
}

/** Undefined when the stream holds an error or does not end with `[DONE]`. */
function streamText(raw: string): string | undefined {
  let text = '';
  for (const event of raw.split('\n\n')) {
    if (event === 'data: [DONE]') return text;
    if (!event.startsWith('data: ')) continue;
    const value = JSON.parse(event.slice(6)) as AnswerShape;
    if (value.error !== undefined) return undefined;
    if (text.length < MAX_ANSWER_CHARS) text += choiceText(value);
  }
  return undefined;
}

/** Starts sending at once. Failures are counted, never thrown. */
export function startTraffic(options: TrafficOptions): Traffic {
  return new RunningTraffic(options);
}
