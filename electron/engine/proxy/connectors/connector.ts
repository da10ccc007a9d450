/**
 * The interface of a P/D protocol. A connector decides which legs a request needs, in which order or at the same
 * time, and what each carries; the proxy core owns sockets, accounting, tracing, abort and the way to the client.
 *
 * `run` is called once per try and returns the answer to stream. It may start any number of legs, one after the other
 * or together; when it throws a retryable ProxyError it is called again with the failed instances excluded. Whatever
 * still runs when it throws, or when the client leaves, is cancelled by the core.
 *
 * How the field's protocols map on it:
 *   plain               call(prefill), open(decode), each repeated by itself
 *   nixl                call(prefill), raw kv_transfer_params from its answer, open(decode); repeated as a pair
 *   nixl-bidirectional  as nixl; `onEnd` of the decode leg gives the params at the end of its body or stream, kept in
 *                       the connector under a conversation id; `choose(..., prefer)` for the same decode instance.
 *                       Decode run without stream and re-emitted: return an Answer of its own instead of the leg's
 *   nixl-push, moriio   `headers` overrides X-Request-Id on both legs; READ serial, WRITE with Promise.all
 *   mooncake            call(prefill) without awaiting + open(decode); a failed prefill calls `cancelLegs`, also after
 *                       `run` has returned; X-data-parallel-rank through `headers`
 *   encode (EPD)        Promise.all of call(encode) with child ids in `headers`, then any of the above
 *   render -> generate  `path` overrides the route of a leg
 *   facts of instances  (bootstrap tables, registrations) belong to the connector object, which lives as long as the
 *                       proxy and is closed with it
 */
import type { LegKind, ConnectorName } from '#shared/vocabulary.ts';
import type { Instance } from '../../fleet/instance.ts';
import type { LegFacts } from '../../telemetry/trace.ts';
import type { ClientRequest } from '../client-request.ts';
import type { LegHeaders, RawHeaders } from '../headers.ts';
import type { JsonMember } from '../json-members.ts';
import type { Rewrite } from '../prefill-body.ts';
import type { ProxyError } from '../proxy-error.ts';

/** One upstream call that a connector asks for. */
export interface LegRequest {
  readonly kind: LegKind;
  readonly instance: Instance;
  readonly body: Buffer;
  /** What `body` changed relative to the client's, for the record. */
  readonly rewrites: readonly Rewrite[];
  /** Lower-case fields that replace those of all legs. */
  readonly headers?: LegHeaders;
  /** Default: the path the client called. */
  readonly path?: string;
  /** For the record only; the connector has put them into `body`. */
  readonly kvTransferParams?: unknown;
  /** Called once when a streamed answer ended well: what its end said, and its last bytes (16 KB or a little more). */
  readonly onEnd?: (facts: LegFacts, lastBytes: Buffer) => void;
}

/** A whole answer in memory: status 2xx and a JSON object, or the call threw. */
export interface LegAnswer {
  readonly body: Buffer;
  readonly members: readonly JsonMember[];
  readonly facts: LegFacts;
}

/** Where an answer's bytes go. After `end` or `fail` nothing more comes. */
export interface AnswerSink {
  /** @param events complete server-sent events in `chunk`. False: hold back until the answer's `resume` is called. */
  data(chunk: Buffer, events: number): boolean;
  end(): void;
  /** The answer broke off. @param isAtBorder between two events, so that another may follow. */
  fail(error: ProxyError, isAtBorder: boolean): void;
}

/** An answer that can be streamed to the client: its head is known and its first byte is there. */
export interface Answer {
  readonly status: number;
  readonly statusText: string;
  readonly rawHeaders: RawHeaders;
  /** Server-sent events in clear (not compressed). */
  readonly isEventStream: boolean;
  /** Hands over what has arrived and everything to come. Called once. */
  pipe(sink: AnswerSink): void;
  resume(): void;
}

/** What a connector may do for one request. */
export interface LegContext {
  readonly request: ClientRequest;
  /**
   * Chooses an instance by the policy in force and records the decision. `prefer` wins when it may take the leg.
   * Throws ProxyError 503 `no_instance`.
   */
  choose(kind: LegKind, prefer?: Instance): Instance;
  /** Runs a leg and reads its whole answer. Rejects with ProxyError. */
  call(leg: LegRequest): Promise<LegAnswer>;
  /** Runs a leg whose answer goes to the client; resolves with the first byte. Rejects with ProxyError. */
  open(leg: LegRequest): Promise<Answer>;
  /** Chooses, sends, and on a retryable failure does so again on another instance, within the request's budget. */
  repeat<T>(kind: LegKind, send: (instance: Instance) => Promise<T>): Promise<T>;
  /** Cancels every leg under way; a stream to the client ends with `reason`. */
  cancelLegs(reason: ProxyError): void;
  /** What the connector noticed about this request, e.g. a handoff that did not happen. */
  note(code: string, message: string): void;
}

export interface Connector {
  readonly name: ConnectorName;
  run(context: LegContext): Promise<Answer>;
  /** Frees what the connector holds outside requests. */
  close?(): Promise<void>;
}
