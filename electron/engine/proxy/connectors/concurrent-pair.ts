/**
 * Prefill and decode under way together: decode waits inside its engine for KV that prefill has yet to send, for minutes
 * if need be (480 s with vLLM's defaults). So nothing may be fired and forgotten: whichever leg fails first cancels the
 * other, and its error is the pair's.
 *
 * Invariants: a pair is one try; its late events touch no leg of the try after it. Once decode has failed or answered,
 * only a failing prefill is acted on, and only while the answer still streams: KV of a prefill leg that broke is vouched
 * for by nobody.
 */
import { errorMessage } from '#shared/errors.ts';
import type { LinkedNode } from '../linked-set.ts';
import { ProxyError } from '../proxy-error.ts';
import type { Answer, LegAnswer, LegContext, LegRequest } from './connector.ts';

export interface PairInit {
  readonly prefill: LegRequest;
  readonly decode: LegRequest;
}

export abstract class ConcurrentPair implements LinkedNode {
  links: LinkedNode['links'];
  readonly context: LegContext;
  readonly prefill: LegRequest;
  readonly decode: LegRequest;
  #state: 'waiting' | 'answering' | 'over' = 'waiting';
  /** When prefill's answer was complete: monotonic and Unix milliseconds. */
  #endedAtMs: number | undefined;
  #endedAtUnixMs = 0;

  constructor(context: LegContext, { prefill, decode }: PairInit) {
    this.context = context;
    this.prefill = prefill;
    this.decode = decode;
  }

  /** Sends both legs; resolves with decode's first byte. Rejects with the error of the leg that failed first. */
  async run(): Promise<Answer> {
    this.context.call(this.prefill).then(
      (answer) => this.#ended(answer),
      (error: unknown) => this.#failed(error),
    );
    try {
      const answer = await this.context.open(this.decode);
      this.#state = 'answering';
      return answer;
    } catch (error) {
      this.#state = 'over';
      throw error;
    }
  }

  /** Decode has neither answered nor failed. */
  get isWaiting(): boolean {
    return this.#state === 'waiting';
  }

  /** Milliseconds since prefill's answer was complete; undefined while it is not. */
  sincePrefillMs(nowMs: number): number | undefined {
    return this.#endedAtMs === undefined ? undefined : nowMs - this.#endedAtMs;
  }

  /**
   * Whether decode may still need prefill. The first byte of a stream tells; a whole answer has none until its last token,
   * so there the engine's own count of requests that wait for remote KV is asked (num_requests_waiting_by_reason), if it
   * was taken after prefill had ended.
   */
  get mayWaitForKv(): boolean {
    if (!this.isWaiting) return false;
    if (this.context.request.isStream || this.#endedAtMs === undefined) return true;
    const { gauges } = this.decode.instance;
    return gauges?.waitingDeferred !== 0 || gauges.scrapedAtUnixMs <= this.#endedAtUnixMs;
  }

  /** Ends the wait: both legs are cancelled, and `reason` is the pair's error. */
  cancel(reason: ProxyError): void {
    if (this.isWaiting) this.context.cancelLegs(reason);
  }

  /** Looks at prefill's complete answer. What it returns cancels decode, unless that has answered already. */
  protected abstract prefillEnded(answer: LegAnswer): ProxyError | undefined;

  #ended(answer: LegAnswer): void {
    this.#endedAtMs = performance.now();
    this.#endedAtUnixMs = Date.now();
    const reason = this.prefillEnded(answer);
    if (reason !== undefined) this.cancel(reason);
  }

  /** Also when the client left or decode failed: then the core has cancelled everything, and this finds nothing. */
  #failed(error: unknown): void {
    if (this.#state === 'over') return;
    this.context.cancelLegs(error instanceof ProxyError ? error : new ProxyError(500, 'internal_error', `pdscope failed: ${errorMessage(error)}`, { cause: error }));
  }
}
