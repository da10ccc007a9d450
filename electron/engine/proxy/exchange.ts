/**
 * One client request on its way: implements what connectors may do (choose, call, open, repeat) and owns the legs.
 *
 * Invariants: at most `maxRetries` repetitions per request, whatever is repeated; nothing is repeated once a byte has
 * gone to the client; an instance that failed in this request is not chosen again in it. One exception: when it is the
 * only one of its role and did not refuse (the connection was lost, as in a keep-alive race), it gets one more try.
 * Refused connections and timeouts are not repeated on the same instance: its breaker and probes are the remedy.
 */
import type { Verdict } from '#shared/findings.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import type { CandidateScore } from '#shared/request.ts';
import type { Instance } from '../fleet/instance.ts';
import type { Candidates, LegScheduler } from '../fleet/ports.ts';
import { chooseRank } from '../fleet/ranks.ts';
import type { Logger } from '../log.ts';
import type { LegFacts, RequestTrace } from '../telemetry/trace.ts';
import { CallLeg } from './call-leg.ts';
import type { ClientRequest } from './client-request.ts';
import type { ConnectWatch } from './connect-watch.ts';
import type { Answer, ChooseOptions, Connector, DecodeHolder, LegAnswer, LegContext, LegRequest, LegTarget } from './connectors/connector.ts';
import { findDecodeHolder } from './decode-holder.ts';
import { RANK_HEADER, type LegHeaders } from './headers.ts';
import type { Leg, LegOwner, LegSetup } from './leg.ts';
import { refuseFatal, type LintContext, type Linter } from './lint/linter.ts';
import type { Choice, Policy } from './policies/policy.ts';
import type { Rewrite } from './prefill-body.ts';
import { preferredChoice } from './preferred-choice.ts';
import type { PromptView } from './prompt-view.ts';
import { describeLeg, NEVER_SENT, ProxyError } from './proxy-error.ts';
import { StreamLeg } from './stream-leg.ts';
import { WHOLE_ANSWER_FACTOR, type ProxyTimeouts } from './timeouts.ts';

export interface ExchangeOptions {
  readonly request: ClientRequest;
  /** What every leg carries; see headers.ts. */
  readonly headers: LegHeaders;
  readonly path: string;
  /** Of the client's body, for every leg that is made from it. */
  readonly rewrites: readonly Rewrite[];
  readonly scheduler: LegScheduler;
  readonly policy: Policy;
  readonly connector: Connector;
  /** Watches parameters at every hop. */
  readonly linter: Linter;
  /** Whether a leg that would kill or hang its engine is held back. */
  readonly blockFatal: boolean;
  /** Present when routing looks at prompts. */
  readonly prompt?: PromptView;
  /** See `prefillSkipTokens` in ProtocolSettings. 0: never. */
  readonly prefillSkipTokens: number;
  /** Gets why a policy balanced load instead of what it is for. */
  readonly onDegraded: (why: string) => void;
  readonly trace: RequestTrace;
  readonly timeouts: ProxyTimeouts;
  readonly connectWatch: ConnectWatch;
  readonly maxRetries: number;
  readonly logger: Logger;
}

/** How long a leg may go on after the client has its whole answer, ms: prefill beside a short decode may answer last. */
const LATE_LEG_MS = 2000;

/** Shared: nearly every decision has none, and the record keeps it. */
const NONE_EXCLUDED: readonly CandidateScore[] = [];

export class Exchange implements LegContext, LegOwner {
  readonly request: ClientRequest;
  readonly scheduler: LegScheduler;
  readonly timeouts: ProxyTimeouts;
  readonly connectWatch: ConnectWatch;
  readonly trace: RequestTrace;
  readonly prompt: PromptView | undefined;
  /** Why the request did not end well, once known. */
  failure: ProxyError | undefined;
  readonly #options: ExchangeOptions;
  /** One for all hops: the linter keeps in it what it saw. */
  readonly #lint: LintContext;
  /** Those under way: one or two, and in the encode stage one per media item. */
  #legs: Leg[] = [];
  readonly #attempts: Record<LegKind, number> = { encode: 0, render: 0, prefill: 0, decode: 0, forward: 0 };
  #failed: Map<Instance, string> | undefined;
  /** The only one of its role, tried again: and how many legs that were under way on it then may be lost with the first. */
  #again: { readonly instance: Instance; left: number } | undefined;
  #retriesLeft: number;
  #answer: Answer | undefined;
  #stopReason: ProxyError | undefined;
  #lateTimer: NodeJS.Timeout | undefined;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.request = options.request;
    this.scheduler = options.scheduler;
    this.timeouts = options.timeouts;
    this.connectWatch = options.connectWatch;
    this.trace = options.trace;
    this.prompt = options.prompt;
    this.#retriesLeft = options.maxRetries;
    this.#lint = { connector: options.connector.name, request: options.request };
  }

  choose(kind: LegKind, options: ChooseOptions = {}): LegTarget {
    if (this.#stopReason !== undefined) throw this.#stopReason;
    const { candidates, excluded, failed } = this.#eligible(kind);
    if (candidates.length === 0) throw noInstance(kind, [...excluded, ...failed]);
    const { policy } = this.#options;
    const { prefer } = options;
    const choice: Choice =
      prefer !== undefined && candidates.includes(prefer)
        ? preferredChoice(candidates, { kind, prefer, reason: options.reason ?? 'preferred by the connector', prompt: this.prompt })
        : policy.choose(candidates, kind, this.prompt);
    const { chosen, degraded } = choice;
    if (degraded !== undefined) this.#options.onDegraded(degraded);
    const isPinnedByClient = this.request.headers[RANK_HEADER] !== undefined;
    const pinned = prefer === undefined || chosen === prefer ? options.rank : undefined;
    const rank = isPinnedByClient ? undefined : (pinned ?? choice.rank ?? chooseRank(chosen));
    this.trace.decided({
      kind,
      policy: policy.name,
      chosen: chosen.id,
      ...(rank !== undefined && { rank }),
      attempt: this.#attempts[kind] + 1,
      candidates: choice.scores,
      excluded: this.#describeExcluded(excluded),
      ...(degraded !== undefined && { degraded }),
      ...this.#promptFacts(kind),
    });
    return rank === undefined ? { instance: chosen } : { instance: chosen, rank };
  }

  decodeHolder(): DecodeHolder | undefined {
    const { prompt } = this;
    const { prefillSkipTokens } = this.#options;
    if (prompt === undefined || prefillSkipTokens === 0 || this.request.headers[RANK_HEADER] !== undefined) return undefined;
    return findDecodeHolder(this.#eligible('decode').candidates, prompt, prefillSkipTokens);
  }

  #promptFacts(kind: LegKind): Pick<Parameters<RequestTrace['decided']>[0], 'promptTokens' | 'tokensFrom'> | undefined {
    const { tokens, tokensFrom } = this.prompt ?? {};
    return tokens === undefined || tokensFrom === undefined || (kind !== 'prefill' && kind !== 'decode') ? undefined : { promptTokens: tokens.length, tokensFrom };
  }

  /** `candidates`: those that have not failed in this request; `failed`: those that have, and why. */
  #eligible(kind: LegKind): {
    readonly candidates: readonly Instance[];
    readonly excluded: Candidates['excluded'];
    readonly failed: readonly { readonly instance: Instance; readonly reason: string }[];
  } {
    const { routable, excluded } = this.#candidates(kind);
    const failed = this.#failed;
    if (failed === undefined) return { candidates: routable, excluded, failed: [] };
    return {
      candidates: routable.filter((instance) => !failed.has(instance)),
      excluded,
      failed: routable.flatMap((instance) => {
        const reason = failed.get(instance);
        return reason === undefined ? [] : [{ instance, reason }];
      }),
    };
  }

  /** Those of the scheduler that the connector can use. */
  #candidates(kind: LegKind): Candidates {
    const all = this.scheduler.candidates(kind);
    const { connector } = this.#options;
    // Encode legs come before any connector.
    if (connector.refuses === undefined || kind === 'encode') return all;
    const routable: Instance[] = [];
    const excluded = [...all.excluded];
    for (const instance of all.routable) {
      const reason = connector.refuses(instance, kind);
      if (reason === undefined) routable.push(instance);
      else excluded.push({ instance, reason });
    }
    return { routable, excluded };
  }

  call(request: LegRequest): Promise<LegAnswer> {
    const leg = this.#call(request);
    return leg instanceof ProxyError ? Promise.reject(leg) : leg.answer;
  }

  /** As `call`; cancelled when it takes longer than `deadlineMs`, which then is what it rejects with. */
  async callWithin(request: LegRequest, deadlineMs: number): Promise<LegAnswer> {
    const leg = this.#call(request);
    if (leg instanceof ProxyError) throw leg;
    const { kind, instance } = request;
    const timer = setTimeout(() => {
      leg.cancel(new ProxyError(504, 'deadline', `${describeLeg(kind, instance)} took longer than ${deadlineMs} ms.`, { leg: kind, instance }));
    }, deadlineMs);
    try {
      return await leg.answer;
    } finally {
      clearTimeout(timer);
    }
  }

  #call(request: LegRequest): CallLeg | ProxyError {
    // The answer is read here, so it must come uncompressed.
    const setup = this.#setUp(request, { ...this.#headersOf(request), 'accept-encoding': 'identity', ...request.headers }, true);
    if (setup instanceof ProxyError) return setup;
    const leg = new CallLeg(this, setup);
    this.#start(leg, setup);
    return leg;
  }

  open(request: LegRequest): Promise<Answer> {
    const headers = this.#headersOf(request);
    const setup = this.#setUp(request, request.headers === undefined ? headers : { ...headers, ...request.headers }, !this.request.isStream);
    if (setup instanceof ProxyError) return Promise.reject(setup);
    const leg = new StreamLeg(this, setup, this.request.isStream);
    this.#start(leg, setup);
    return leg.opened;
  }

  async repeat<T>(kind: LegKind, send: (target: LegTarget) => Promise<T>, options?: ChooseOptions): Promise<T> {
    for (;;) {
      const target = this.choose(kind, options);
      try {
        return await send(target);
      } catch (error) {
        // A leg that was cancelled because another failed rejects with that other one's error.
        const isOwn = error instanceof ProxyError && error.instance === target.instance;
        if (!isOwn || !this.mayRepeat(error)) throw error;
      }
    }
  }

  /**
   * Decides whether what failed with `error` is to be tried again, and takes the try from the budget. The failed
   * instance is excluded from now on; of several legs that fail on it at the same time, the first pays for all.
   */
  mayRepeat(error: unknown): boolean {
    if (!(error instanceof ProxyError) || !error.retryable || error.leg === undefined || error.instance === undefined) return false;
    if (this.#stopReason !== undefined) return false;
    const again = this.#again?.instance === error.instance && this.#again.left > 0 ? this.#again : undefined;
    const isPaid = again !== undefined || this.#failed?.has(error.instance) === true;
    if (this.#retriesLeft === 0 && !isPaid) return false;
    this.#failed ??= new Map();
    this.#failed.set(error.instance, `failed in this request: ${error.message}`);
    const failed = this.#failed;
    const hasOther = this.#candidates(error.leg).routable.some((instance) => !failed.has(instance));
    if (!hasOther) {
      if (!error.mayRepeatOnSame || (this.#again !== undefined && again === undefined)) return false;
      if (again === undefined) this.#again = { instance: error.instance, left: this.#legs.filter(({ instance }) => instance === error.instance).length };
      else again.left--;
      failed.delete(error.instance);
    }
    if (!isPaid) this.#retriesLeft--;
    this.trace.retried();
    return true;
  }

  cancelLegs(reason: ProxyError): void {
    for (const leg of this.#legs) leg.cancel(reason);
  }

  /** Ends the request for good: no further leg is started. */
  stop(reason: ProxyError): void {
    this.#stopReason ??= reason;
    this.cancelLegs(reason);
  }

  /** The client has its whole answer: a leg that still runs is given a moment, and then stopped. */
  finished(): void {
    if (this.#legs.length === 0) return;
    const reason = new ProxyError(499, 'leg_outlived_request', 'The client had its whole answer, and the leg was still running.');
    this.#lateTimer = setTimeout(() => this.stop(reason), LATE_LEG_MS).unref();
  }

  /** The answer that goes to the client: its leg's error is the request's. */
  answeredWith(answer: Answer): void {
    this.#answer = answer;
  }

  legSettled(leg: Leg, error: ProxyError | undefined): void {
    this.#legs = this.#legs.filter((other) => other !== leg);
    if (this.#lateTimer !== undefined && this.#legs.length === 0) clearTimeout(this.#lateTimer);
    if (error !== undefined && NEVER_SENT.has(error.code)) this.#options.linter.neverSent?.(leg.request);
    if (leg instanceof StreamLeg && leg === this.#answer && error !== undefined) this.failure ??= error;
  }

  report(verdict: Verdict): void {
    const { logger } = this.#options;
    logger.debug({ code: verdict.code, requestId: this.request.requestId }, verdict.message);
    this.trace.verdict(verdict);
  }

  /** What a leg's answer said about itself; the linter reads its parameters. */
  answered(request: LegRequest, facts: LegFacts): void {
    if (request.isAside === true) return;
    for (const verdict of this.#options.linter.answered(this.#lint, request, facts)) this.report(verdict);
  }

  #headersOf({ kind, rank }: LegRequest): LegHeaders {
    const { headers } = this.#options;
    if (rank !== undefined) return { ...headers, [RANK_HEADER]: String(rank) };
    if (kind !== 'encode' || headers[RANK_HEADER] === undefined) return headers;
    // The client pinned a rank of those who serve its request; an encode instance may not have it, and would answer 400.
    const { [RANK_HEADER]: _pinned, ...others } = headers;
    return others;
  }

  /**
   * Why the leg must not start, or how it does.
   * @param isWhole the answer comes in one piece after its last token.
   */
  #setUp(request: LegRequest, headers: LegHeaders, isWhole: boolean): LegSetup | ProxyError {
    if (this.#stopReason !== undefined) return this.#stopReason;
    const { headersMs } = this.timeouts;
    const path = request.path ?? this.#options.path;
    if (request.isAside === true) return { request, attempt: 1, path, headers, headersTimeoutMs: headersMs };
    const { linter, blockFatal } = this.#options;
    const verdicts = linter.sending(this.#lint, request, headers);
    if (verdicts.length > 0) {
      const refusal = blockFatal ? refuseFatal(request, verdicts) : undefined;
      for (const verdict of verdicts) this.report(refusal !== undefined && verdict.effect !== undefined ? { ...verdict, isBlocked: true } : verdict);
      if (refusal !== undefined) return refusal;
    }
    const attempt = ++this.#attempts[request.kind];
    const { rewrites } = this.#options;
    const hasMore = rewrites.length > 0 && (request.kind === 'prefill' || request.kind === 'decode');
    return {
      request: hasMore ? { ...request, rewrites: [...rewrites, ...request.rewrites] } : request,
      attempt,
      path,
      headers,
      headersTimeoutMs: (request.kind === 'decode' || request.kind === 'forward') && isWhole ? headersMs * WHOLE_ANSWER_FACTOR : headersMs,
    };
  }

  #start(leg: Leg, setup: LegSetup): void {
    this.#legs.push(leg);
    leg.start(setup);
  }

  #describeExcluded(excluded: readonly { readonly instance: Instance; readonly reason: string }[]): readonly CandidateScore[] {
    if (excluded.length === 0 && this.#failed === undefined) return NONE_EXCLUDED;
    const scores: CandidateScore[] = excluded.map(({ instance, reason }) => ({ instance: instance.id, name: instance.name, reason }));
    if (this.#failed !== undefined) {
      for (const [instance, reason] of this.#failed) scores.push({ instance: instance.id, name: instance.name, reason });
    }
    return scores;
  }
}

function noInstance(kind: LegKind, excluded: readonly { readonly instance: Instance; readonly reason: string }[]): ProxyError {
  const why =
    excluded.length === 0
      ? `none is registered. Add one on the Instances view, with POST /instances/add, or with --${kind === 'render' || kind === 'forward' ? 'both' : kind}.`
      : excluded.map(({ instance, reason }) => `${instance.name} (${instance.origin}): ${reason}`).join('; ');
  return new ProxyError(503, 'no_instance', `No ${kind} instance can take the request: ${why}`, { headers: ['retry-after', '1'] });
}
