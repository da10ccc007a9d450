/**
 * One upstream call: an undici handler that keeps the accounts of its leg. Subclasses decide what becomes of a 2xx
 * body (`call-leg.ts` reads it whole, `stream-leg.ts` hands it on); everything else is the same for both.
 *
 * Invariants: `legStarted` is matched by exactly one `legEnded`, the trace's leg by one `end`; calls aside (`isAside`)
 * have neither. After that every callback of undici is ignored. A cancelled leg destroys its connection at once, which
 * aborts it in the engine.
 */
import type { Dispatcher } from 'undici';
import type { LegKind } from '#shared/vocabulary.ts';
import type { Instance } from '../fleet/instance.ts';
import type { LegScheduler } from '../fleet/ports.ts';
import type { LegFacts, LegTrace, RequestTrace } from '../telemetry/trace.ts';
import type { ConnectWatch, Connecting } from './connect-watch.ts';
import type { LegRequest } from './connectors/connector.ts';
import type { LegHeaders, RawHeaders } from './headers.ts';
import { describeLeg, ProxyError } from './proxy-error.ts';
import type { ProxyTimeouts } from './timeouts.ts';
import { transportError, upstreamStatusError } from './upstream-error.ts';

/** An error body beyond this is cut; enough for any message. */
const MAX_ERROR_BODY_BYTES = 64 * 1024;

const UNTRACED: LegTrace = { headers() {}, bytes() {}, facts() {}, end() {} };

/** What a leg needs from the exchange it belongs to. */
export interface LegOwner {
  readonly scheduler: LegScheduler;
  readonly timeouts: ProxyTimeouts;
  readonly connectWatch: ConnectWatch;
  readonly trace: RequestTrace;
  /** A 2xx answer is complete; called before `legSettled`. */
  answered(request: LegRequest, facts: LegFacts): void;
  /** The leg has ended; `error` unless well or cancelled. */
  legSettled(leg: Leg, error: ProxyError | undefined): void;
}

export interface LegSetup {
  readonly request: LegRequest;
  readonly attempt: number;
  readonly path: string;
  readonly headers: LegHeaders;
  readonly headersTimeoutMs: number;
}

export abstract class Leg implements Dispatcher.DispatchHandler, Connecting {
  readonly kind: LegKind;
  readonly instance: Instance;
  readonly request: LegRequest;
  protected readonly legTrace: LegTrace;
  protected readonly owner: LegOwner;
  protected controller: Dispatcher.DispatchController | undefined;
  status = 0;
  connectDeadlineMs = 0;
  links: Connecting['links'];
  #isSettled = false;
  #errorBody: Buffer[] | undefined;
  #errorBodyBytes = 0;

  constructor(owner: LegOwner, setup: LegSetup) {
    const { request, attempt, path, headers } = setup;
    this.owner = owner;
    this.request = request;
    this.kind = request.kind;
    this.instance = request.instance;
    if (request.isAside === true) {
      this.legTrace = UNTRACED;
      return;
    }
    this.legTrace = owner.trace.leg({
      kind: request.kind,
      instance: request.instance,
      ...(request.rank !== undefined && { rank: request.rank }),
      attempt,
      url: request.instance.origin + path,
      headers,
      requestBytes: request.body.length,
      body: request.body,
      rewrites: request.rewrites,
      kvTransferParams: request.kvTransferParams,
    });
    owner.scheduler.legStarted(request.instance, request.rank);
  }

  /** Sends the request. Separate from the constructor because undici may fail it before `dispatch` returns. */
  start({ path, headers, headersTimeoutMs }: LegSetup): void {
    const { connectMs, idleMs } = this.owner.timeouts;
    this.connectDeadlineMs = performance.now() + connectMs;
    this.owner.connectWatch.add(this);
    this.instance.pool.dispatch(
      { path, method: 'POST', headers, body: this.request.body, headersTimeout: headersTimeoutMs, bodyTimeout: idleMs },
      this,
    );
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Stops the leg; `reason` is what whoever waits for it gets. */
  cancel(reason: ProxyError): void {
    if (this.#isSettled) return;
    this.settle('aborted');
    this.controller?.abort(reason);
    this.onFailure(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    this.owner.connectWatch.delete(this);
    if (this.#isSettled) controller.abort(new Error('cancelled before it was sent'));
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Record<string, string | string[] | undefined>, statusText?: string): void {
    if (this.#isSettled || status < 200) return;
    this.status = status;
    this.legTrace.headers(status, headers);
    if (status >= 300) this.#errorBody = [];
    else this.onHead((controller.rawHeaders ?? []) as RawHeaders, headers, statusText ?? '');
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isSettled) return;
    this.legTrace.bytes(chunk.length);
    if (this.#errorBody === undefined) {
      this.onBody(chunk);
    } else if (this.#errorBodyBytes < MAX_ERROR_BODY_BYTES) {
      this.#errorBody.push(chunk);
      this.#errorBodyBytes += chunk.length;
    }
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    if (this.#isSettled) return;
    if (this.#errorBody === undefined) this.onBodyEnd();
    else this.fail(this.#refusal((controller.rawHeaders ?? []) as RawHeaders));
  }

  onResponseError(controller: Dispatcher.DispatchController | undefined, error: Error): void {
    if (this.#isSettled) return;
    // A refusal whose body broke off is still a refusal.
    if (this.#errorBody !== undefined) {
      this.fail(this.#refusal((controller?.rawHeaders ?? []) as RawHeaders));
      return;
    }
    const stage = this.controller === undefined ? 'connecting' : this.status === 0 ? 'waiting' : 'streaming';
    this.fail(transportError(this.kind, this.instance, stage, error));
  }

  /** Head of a 2xx answer. */
  protected abstract onHead(rawHeaders: RawHeaders, headers: Record<string, string | string[] | undefined>, statusText: string): void;
  /** Bytes of a 2xx answer. */
  protected abstract onBody(chunk: Buffer): void;
  /** A 2xx answer is complete. */
  protected abstract onBodyEnd(): void;
  /** The leg failed or was cancelled; called once, after the accounts are closed. */
  protected abstract onFailure(error: ProxyError): void;

  protected fail(error: ProxyError): void {
    if (this.#isSettled) return;
    this.settle('error', error);
    this.controller?.abort(error);
    this.onFailure(error);
  }

  protected failEmpty(): void {
    const message = `${describeLeg(this.kind, this.instance)} answered ${this.status} with an empty body.`;
    this.fail(new ProxyError(502, 'empty_response', message, { leg: this.kind, instance: this.instance, retryable: true }));
  }

  /** Closes the leg's accounts. */
  protected settle(outcome: 'ok' | 'error' | 'aborted', error?: ProxyError): void {
    this.#isSettled = true;
    if (this.controller === undefined) this.owner.connectWatch.delete(this);
    this.legTrace.end(outcome, error?.toRequestError());
    if (this.request.isAside !== true) {
      const isInstanceFault = error !== undefined && !error.isRequestFault;
      this.owner.scheduler.legEnded(
        this.instance,
        outcome === 'error' ? (isInstanceFault ? 'failed' : 'ok') : outcome,
        error?.message,
        this.request.rank,
      );
    }
    this.owner.legSettled(this, error);
  }

  connectTimedOut(): void {
    const { connectMs } = this.owner.timeouts;
    const message = `${describeLeg(this.kind, this.instance)}: no connection within ${connectMs} ms.`;
    this.fail(new ProxyError(504, 'connect_timeout', message, { leg: this.kind, instance: this.instance, retryable: true }));
  }

  #refusal(rawHeaders: RawHeaders): ProxyError {
    return upstreamStatusError({
      kind: this.kind,
      instance: this.instance,
      status: this.status,
      rawHeaders,
      body: Buffer.concat(this.#errorBody ?? []),
      hasTransferParams: this.request.kvTransferParams !== undefined,
    });
  }
}
