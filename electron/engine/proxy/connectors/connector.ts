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
 *                       the connector under a conversation id; `choose('decode', { prefer })` for the same instance.
 *                       Decode run without stream and re-emitted: return an Answer of its own instead of the leg's
 *   nixl-push           `headers` overrides X-Request-Id on both legs; serial until prefill's place is known, then together
 *   moriio              `headers` overrides X-Request-Id on both legs; READ serial, WRITE together
 *   mooncake            call(prefill) without awaiting + open(decode), as nixl-push (concurrent-pair.ts); a failed
 *                       prefill calls `cancelLegs`, also after `run` has returned
 *   render              call(render), then nixl with `path` and bodies of token ids
 *   aggregated          open(decode) on instances of role `both`
 * Encode legs come before any of them (encode-stage.ts). Facts of instances (bootstrap tables, registrations) belong to
 * the connector object, which lives as long as the proxy and is closed with it.
 */
import type { Verdict } from '#shared/findings.ts';
import type { ConnectorStatus, ProtocolOptions, ProtocolSettings } from '#shared/protocol.ts';
import type { LegKind, ConnectorName } from '#shared/vocabulary.ts';
import type { Instance } from '../../fleet/instance.ts';
import type { FleetRoster } from '../../fleet/ports.ts';
import type { Logger } from '../../log.ts';
import type { LegFacts } from '../../telemetry/trace.ts';
import type { ClientRequest } from '../client-request.ts';
import type { LegHeaders, RawHeaders } from '../headers.ts';
import type { JsonMember } from '../json-members.ts';
import type { Rewrite } from '../prefill-body.ts';
import type { PromptView } from '../prompt-view.ts';
import type { ProxyError } from '../proxy-error.ts';

/** Where a leg goes: an instance, and the data-parallel rank it is pinned to when the instance has several. */
export interface LegTarget {
  readonly instance: Instance;
  /** Sent as X-data-parallel-rank, unless `headers` says otherwise or the client pinned the rank itself. */
  readonly rank?: number;
}

/** One upstream call that a connector asks for. */
export interface LegRequest extends LegTarget {
  readonly kind: LegKind;
  readonly body: Buffer;
  /** What `body` changed relative to the client's, for the record. */
  readonly rewrites: readonly Rewrite[];
  /** Lower-case fields that replace those of all legs. */
  readonly headers?: LegHeaders;
  /** Default: the path the client called. */
  readonly path?: string;
  /** JSON text, for the record and the linter; the connector has put them into `body`. */
  readonly kvTransferParams?: unknown;
  /** Called once when an answer given by `open` ended well, after its last byte went out. */
  readonly onEnd?: (end: LegEnd) => void;
  /** How much of the end of the answer `onEnd` gets, bytes. Default 16 KB. */
  readonly tailBytes?: number;
  /**
   * A small call beside the request's legs that may occur once per token (detokenising): neither recorded nor counted as
   * a leg of the instance, but bounded by the same timeouts and cancelled with the legs. Default false.
   */
  readonly isAside?: boolean;
}

export interface LegEnd {
  readonly facts: LegFacts;
  /** `tailBytes` or a little more. */
  readonly lastBytes: Buffer;
  /** Whether `lastBytes` is the whole answer. */
  readonly isWhole: boolean;
}

export interface ChooseOptions {
  /** Wins when it may take the leg. */
  readonly prefer?: Instance;
  /** Pins the rank; with `prefer`, only when that one is chosen. Default: the least busy one of the instance chosen. */
  readonly rank?: number;
  /** Why `prefer`, in words, for the record. Default: `preferred by the connector`. */
  readonly reason?: string;
}

/** A decode instance that can do without prefill. */
export interface DecodeHolder {
  readonly instance: Instance;
  readonly rank?: number;
  readonly promptTokens: number;
  readonly matchedTokens: number;
  /** 0..1. */
  readonly confidence: number;
  /** Uncached tokens from which on prefill would run. */
  readonly limit: number;
}

/** A whole answer in memory: status 2xx and a JSON object, or the call threw. */
export interface LegAnswer {
  readonly rawHeaders: RawHeaders;
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
  /** There when routing looks at prompts; a connector that learns the tokens tells it. */
  readonly prompt?: PromptView | undefined;
  /**
   * Chooses an instance by the policy in force, and a rank of it, and records the decision.
   * Throws ProxyError 503 `no_instance`.
   */
  choose(kind: LegKind, options?: ChooseOptions): LegTarget;
  /** Runs a leg and reads its whole answer. Rejects with ProxyError. */
  call(leg: LegRequest): Promise<LegAnswer>;
  /** Runs a leg whose answer goes to the client; resolves with the first byte. Rejects with ProxyError. */
  open(leg: LegRequest): Promise<Answer>;
  /** Chooses, sends, and on a retryable failure does so again on another instance, within the request's budget. */
  repeat<T>(kind: LegKind, send: (target: LegTarget) => Promise<T>, options?: ChooseOptions): Promise<T>;
  /** A decode instance for which the settings leave prefill out, because it holds nearly all of the prompt. */
  decodeHolder?(): DecodeHolder | undefined;
  /** Cancels every leg under way; a stream to the client ends with `reason`. */
  cancelLegs(reason: ProxyError): void;
  /** What the connector noticed about this request, e.g. a handoff that did not happen. Kept with the request and as a finding. */
  report(verdict: Verdict): void;
}

/** What a connector may use besides the request at hand. */
export interface ConnectorServices {
  readonly fleet: FleetRoster;
  readonly logger: Logger;
  /** As given at start. */
  readonly options: ProtocolOptions;
  /** As in force now. */
  settings(): ProtocolSettings;
  /** A finding that is not about one request. */
  report(verdict: Verdict): void;
}

export interface Connector {
  readonly name: ConnectorName;
  /** The legs that an ordinary request needs; without a routable instance for each, the proxy is unhealthy. */
  readonly legs: readonly LegKind[];
  /** Whose instances compute a whole request alone, besides `both`. Default: decode. */
  readonly wholeOn?: 'prefill' | 'decode';
  /** Whether a render leg of its own will give this request's tokens. Default: none does. */
  rendersPrompt?(request: ClientRequest): boolean;
  /** Why this protocol cannot use an instance for a leg now, in words; undefined when it can. Called for every choice. */
  refuses?(instance: Instance, kind: LegKind): string | undefined;
  run(context: LegContext): Promise<Answer>;
  /** Comes into force. Rejects with PdscopeError when it cannot (a port is taken): then the switch does not happen. */
  activate?(): Promise<void>;
  /** Another one took over; requests that run keep working. */
  deactivate?(): Promise<void>;
  status(): ConnectorStatus;
  /** What the reference proxy of this protocol tells on its health route, in its names. Default: nothing. */
  healthFields?(): Readonly<Record<string, number | string>>;
  /** Frees what the connector holds outside requests. */
  close?(): Promise<void>;
}
