/** A request's context with the rendered request in the client's place: legs go to the generate route. */
import type { Verdict } from '#shared/findings.ts';
import { API_PATHS, type LegKind } from '#shared/vocabulary.ts';
import { BufferedAnswer } from '../../buffered-answer.ts';
import type { ClientRequest } from '../../client-request.ts';
import type { Rewrite } from '../../prefill-body.ts';
import type { ProxyError } from '../../proxy-error.ts';
import type { PromptView } from '../../prompt-view.ts';
import type { Answer, ChooseOptions, DecodeHolder, LegAnswer, LegContext, LegRequest, LegTarget } from '../connector.ts';
import type { RenderedRequest } from './rendered-request.ts';

export class RenderedContext implements LegContext {
  readonly request: ClientRequest;
  /** Where the answer's tokens come from, once known. */
  decodeTarget: LegTarget | undefined;
  /** The answer, when it is not streamed. */
  whole: LegAnswer | undefined;
  readonly #inner: LegContext;
  readonly #rendered: RenderedRequest;

  constructor(inner: LegContext, rendered: RenderedRequest) {
    this.#inner = inner;
    this.#rendered = rendered;
    this.request = rendered.request;
  }

  get prompt(): PromptView | undefined {
    return this.#inner.prompt;
  }

  decodeHolder(): DecodeHolder | undefined {
    return this.#inner.decodeHolder?.();
  }

  choose(kind: LegKind, options?: ChooseOptions): LegTarget {
    return this.#inner.choose(kind, this.#preferences(kind, options));
  }

  call(leg: LegRequest): Promise<LegAnswer> {
    return this.#inner.call(asGenerate(leg));
  }

  async open(leg: LegRequest): Promise<Answer> {
    this.decodeTarget = leg.rank === undefined ? { instance: leg.instance } : { instance: leg.instance, rank: leg.rank };
    if (this.request.isStream) {
      // Read here, so it must come uncompressed.
      return this.#inner.open({ ...asGenerate(leg), headers: { 'accept-encoding': 'identity', ...leg.headers } });
    }
    this.whole = await this.call(leg);
    return new BufferedAnswer(this.whole.body, this.whole.rawHeaders);
  }

  repeat<T>(kind: LegKind, send: (target: LegTarget) => Promise<T>, options?: ChooseOptions): Promise<T> {
    return this.#inner.repeat(kind, send, this.#preferences(kind, options));
  }

  cancelLegs(reason: ProxyError): void {
    this.#inner.cancelLegs(reason);
  }

  report(verdict: Verdict): void {
    this.#inner.report(verdict);
  }

  /** The policy chose among prefill instances when it rendered; prefill follows it, unless the tokens are what it goes by. */
  #preferences(kind: LegKind, options: ChooseOptions | undefined): ChooseOptions | undefined {
    return kind === 'prefill' && options?.prefer === undefined && this.prompt?.tokens === undefined ? { ...options, prefer: this.#rendered.instance } : options;
  }
}

const RENDERED: Rewrite = { field: '(body)', to: 'the token ids and sampling parameters of the render leg' };

function asGenerate(leg: LegRequest): LegRequest {
  return { path: API_PATHS.generate, ...leg, rewrites: [RENDERED, ...leg.rewrites] };
}
