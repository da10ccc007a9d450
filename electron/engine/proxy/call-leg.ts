/** A leg whose answer the proxy needs whole: encode, render and prefill legs, and decode legs that are not passed through. */
import type { LegFacts } from '../telemetry/trace.ts';
import { errorIn, factsOfObject, isErrorBody } from './answer-facts.ts';
import type { LegAnswer } from './connectors/connector.ts';
import type { RawHeaders } from './headers.ts';
import { scanElements, scanMembers, type JsonMember } from './json-members.ts';
import { Leg, type LegOwner, type LegSetup } from './leg.ts';
import { describeLeg, ProxyError } from './proxy-error.ts';
import { reportedError } from './upstream-error.ts';

/** Far beyond one token with parameters, a rendered prompt with its media, or a long answer with log probabilities. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** Of an answer that is a list: completions are rendered as one. */
const NO_MEMBERS: readonly JsonMember[] = [];

export class CallLeg extends Leg {
  /** Resolves with a complete 2xx JSON object (of a render leg: or array), rejects with ProxyError. */
  readonly answer: Promise<LegAnswer>;
  #resolve!: (answer: LegAnswer) => void;
  #reject!: (error: ProxyError) => void;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #rawHeaders: RawHeaders = [];

  constructor(owner: LegOwner, setup: LegSetup) {
    super(owner, setup);
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  protected override onHead(rawHeaders: RawHeaders): void {
    this.#rawHeaders = rawHeaders;
  }

  protected override onBody(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes > MAX_ANSWER_BYTES) {
      this.fail(this.#broken('response_too_large', `sent more than the ${MAX_ANSWER_BYTES / 1024 / 1024} MiB that pdscope reads as one answer`));
    }
  }

  protected override onBodyEnd(): void {
    if (this.#bytes === 0) {
      this.failEmpty();
      return;
    }
    const [only] = this.#chunks;
    const body = this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks);
    const members = scanMembers(body) ?? (this.kind === 'render' && scanElements(body) !== undefined ? NO_MEMBERS : undefined);
    if (members === undefined) {
      this.fail(this.#broken('bad_response', `answered ${this.status} with something other than a JSON object`));
      return;
    }
    const facts: LegFacts = factsOfObject(body, members);
    this.legTrace.facts(this.owner.trace.wantsBodies ? { ...facts, body } : facts);
    if (isErrorBody(body)) {
      this.fail(reportedError(this.kind, this.instance, errorIn(body)));
      return;
    }
    this.owner.answered(this.request, facts);
    this.settle('ok');
    this.#resolve({ rawHeaders: this.#rawHeaders, body, members, facts });
  }

  protected override onFailure(error: ProxyError): void {
    this.#reject(error);
  }

  #broken(code: string, what: string): ProxyError {
    const message = `${describeLeg(this.kind, this.instance)} ${what}.`;
    return new ProxyError(502, code, message, { leg: this.kind, instance: this.instance, retryable: true });
  }
}
