/**
 * The fleet's own, writable side of an Instance. What the operator wants (`mode`) and what checks found (`health`) are
 * kept apart; the public `state` is always derived from both, so neither can overwrite the other.
 */
import { Pool } from 'undici';
import type { InstanceId } from '#shared/ids.ts';
import type { BreakerState, EngineGauges, InstanceState, KvEventsConfig, TransferFacts } from '#shared/instance.ts';
import type { Role } from '#shared/vocabulary.ts';
import { Breaker, type BreakerOptions } from './breaker.ts';
import type { Instance } from './instance.ts';

export interface LegTimeouts {
  /** TCP and TLS. Default 5 s. */
  readonly connectMs: number;
  /** Request sent to response headers. A non-streaming answer has none before its last token. Default 30 min. */
  readonly headersMs: number;
  /** Between two pieces of a body. Default 5 min. */
  readonly idleMs: number;
}

export const DEFAULT_LEG_TIMEOUTS: LegTimeouts = { connectMs: 5_000, headersMs: 1_800_000, idleMs: 300_000 };

export interface PoolOptions {
  readonly timeouts: LegTimeouts;
  /** Undefined: no limit. A limit makes legs wait behind running streams. */
  readonly connections: number | undefined;
}

export type Health =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'ok'; readonly note?: string }
  | { readonly kind: 'bad'; readonly problem: string };

export type Mode =
  | { readonly kind: 'active' }
  | { readonly kind: 'disabled'; readonly reason?: string }
  | { readonly kind: 'draining'; readonly thenRemove: boolean };

export interface ManagedInstanceInit {
  readonly id: InstanceId;
  readonly name: string;
  readonly role: Role;
  readonly origin: string;
  readonly kvEvents: KvEventsConfig | undefined;
  readonly dpSize: number | undefined;
  readonly bootstrapPort: number | undefined;
  readonly kvBytesPerToken: number | undefined;
  readonly registeredBy: 'moriio' | undefined;
  readonly pool: PoolOptions;
  readonly breaker: BreakerOptions;
}

export class ManagedInstance implements Instance {
  readonly id: InstanceId;
  readonly name: string;
  readonly role: Role;
  readonly origin: string;
  readonly pool: Pool;
  kvEvents: KvEventsConfig | undefined;
  readonly addedAtUnixMs = Date.now();
  readonly bootstrapPort: number | undefined;
  readonly kvBytesPerToken: number | undefined;
  readonly registeredBy: 'moriio' | undefined;
  dpSize: number;
  dpSizeSource: Instance['dpSizeSource'];
  rankInFlight: number[];
  nextRank = 0;
  transfer: TransferFacts | undefined;
  isSimulated = false;
  state: InstanceState = 'starting';
  stateReason: string | undefined = 'not probed yet';
  stateSinceUnixMs = Date.now();
  readonly circuit: Breaker;
  models: readonly string[] = [];
  maxModelLen: number | undefined;
  version: string | undefined;
  gauges: EngineGauges | undefined;
  scrapeError: string | undefined;
  inFlight = 0;
  served = 0;
  failed = 0;
  mode: Mode = { kind: 'active' };
  health: Health = { kind: 'unknown' };
  isRemoved = false;
  /** The next check asks for everything, because something hints at a restart. */
  wantsProbe = false;

  constructor(init: ManagedInstanceInit) {
    this.id = init.id;
    this.name = init.name;
    this.role = init.role;
    this.origin = init.origin;
    this.kvEvents = init.kvEvents;
    this.bootstrapPort = init.bootstrapPort;
    this.kvBytesPerToken = init.kvBytesPerToken;
    this.registeredBy = init.registeredBy;
    this.dpSize = init.dpSize ?? 1;
    this.dpSizeSource = init.dpSize === undefined ? 'default' : 'given';
    this.rankInFlight = Array.from({ length: this.dpSize }, () => 0);
    this.circuit = new Breaker(init.breaker);
    const { timeouts, connections } = init.pool;
    this.pool = new Pool(init.origin, {
      connections: connections ?? null,
      pipelining: 1,
      allowH2: false,
      autoSelectFamily: true,
      connect: { timeout: timeouts.connectMs },
      headersTimeout: timeouts.headersMs,
      bodyTimeout: timeouts.idleMs,
      // Below vLLM's own keep-alive of 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE), so that it never closes under a new request.
      keepAliveTimeout: 4_000,
    });
  }

  get breaker(): BreakerState {
    return this.circuit.state;
  }

  get consecutiveFailures(): number {
    return this.circuit.consecutiveFailures;
  }

  /** Derives `state` and its reason. @returns whether either changed. */
  refreshState(): boolean {
    const [state, reason] = this.#derive();
    if (state === this.state && reason === this.stateReason) return false;
    if (state !== this.state) this.stateSinceUnixMs = Date.now();
    this.state = state;
    this.stateReason = reason;
    return true;
  }

  #derive(): readonly [InstanceState, string | undefined] {
    const { mode, health } = this;
    if (mode.kind === 'draining') {
      const after = mode.thenRemove ? 'then leaves' : 'then stays disabled';
      return ['draining', `takes no new requests, waits for those in flight, ${after}${health.kind === 'bad' ? `; down: ${health.problem}` : ''}`];
    }
    if (mode.kind === 'disabled') {
      const parts = [mode.reason, health.kind === 'bad' ? `down: ${health.problem}` : undefined].filter((part) => part !== undefined);
      return ['disabled', parts.length === 0 ? undefined : parts.join('; ')];
    }
    if (health.kind === 'bad') return ['down', health.problem];
    return health.kind === 'ok' ? ['up', health.note] : ['starting', 'not probed yet'];
  }

  /** Why it may not take a leg now; undefined when it may. */
  exclusion(): string | undefined {
    const { state, stateReason, circuit } = this;
    if (state === 'up') return circuit.state === 'open' ? `breaker open: ${circuit.reason ?? 'consecutive failures'}` : undefined;
    return state === 'down' || state === 'starting' ? `${state}: ${stateReason ?? 'unhealthy'}` : state;
  }
}
