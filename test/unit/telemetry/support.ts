/** A clock moved by hand, an instance without a network, and a short way through a request. */
import type { Instance } from '#engine/fleet/instance.ts';
import type { Clock } from '#engine/telemetry/clock.ts';
import { Telemetry, type TelemetryOptions } from '#engine/telemetry/telemetry.ts';
import type { LegInit, LegTrace, RequestInit, RequestTrace } from '#engine/telemetry/trace.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { LegKind, Role } from '#shared/vocabulary.ts';

export interface ManualClock extends Clock {
  advance(ms: number): void;
}

export const ORIGIN_UNIX_MS = 1_800_000_000_000;

export function manualClock(): ManualClock {
  let nowMs = 0;
  return {
    now: () => nowMs,
    originUnixMs: ORIGIN_UNIX_MS,
    advance: (ms) => {
      nowMs += ms;
    },
  };
}

export function fakeInstance(name: string, role: Role, extra: Partial<Instance> = {}): Instance {
  return {
    id: name.toLowerCase() as InstanceId, name, role, origin: `http://${name.toLowerCase()}:8000`, isSimulated: false,
    // Telemetry never touches the connections.
    pool: undefined as unknown as Instance['pool'],
    kvEvents: undefined, addedAtUnixMs: 0, bootstrapPort: undefined, kvBytesPerToken: undefined, registeredBy: undefined, dpSize: 1, dpSizeSource: 'default',
    rankInFlight: [0], nextRank: 0, transfer: undefined, state: 'up', stateReason: undefined, stateSinceUnixMs: 0, breaker: 'closed',
    consecutiveFailures: 0, models: [], maxModelLen: undefined, version: undefined, gauges: undefined, scrapeError: undefined,
    inFlight: 0, served: 0, failed: 0, ...extra,
  };
}

export const P0 = fakeInstance('P0', 'prefill');
export const P1 = fakeInstance('P1', 'prefill');
export const D0 = fakeInstance('D0', 'decode');
export const D1 = fakeInstance('D1', 'decode');

export interface Bench {
  readonly clock: ManualClock;
  readonly telemetry: Telemetry;
  readonly begin: (init?: Partial<RequestInit> & { readonly isStream?: boolean; readonly body?: Buffer }) => RequestTrace;
}

export function bench(options: Partial<TelemetryOptions> = {}): Bench {
  const clock = manualClock();
  const telemetry = new Telemetry({ settleIntervalMs: 0, clock, ...options });
  return {
    clock,
    telemetry,
    begin: ({ isStream = true, body = Buffer.from('{}'), ...init } = {}) => {
      const trace = telemetry.begin({ requestId: 'req', api: 'chat', connector: 'nixl', headers: {}, ...init });
      trace.parsed({ isStream, requestBytes: body.length, body, model: 'm' });
      return trace;
    },
  };
}

export function sendLeg(trace: RequestTrace, kind: LegKind, instance: Instance, init: Partial<LegInit> = {}): LegTrace {
  return trace.leg({
    kind, instance, attempt: 1, url: `${instance.origin}/v1/chat/completions`, headers: {}, requestBytes: 2, body: '{}', rewrites: [], ...init,
  });
}

/** Prefill of `prefillMs`, handoff of 1 ms, `gaps.length + 1` chunks after `ttfbMs`, then `[DONE]` and the end. */
export function runStream(
  { clock, begin }: Bench,
  shape: { readonly prefill?: Instance; readonly decode?: Instance; readonly prefillMs: number; readonly ttfbMs: number; readonly gaps: readonly number[]; readonly completionTokens?: number },
): RequestTrace {
  const trace = begin();
  clock.advance(1);
  const prefill = sendLeg(trace, 'prefill', shape.prefill ?? P0);
  clock.advance(shape.prefillMs);
  prefill.facts({ usage: { promptTokens: 100, cachedTokens: 40 } });
  prefill.end('ok');
  clock.advance(1);
  const decode = sendLeg(trace, 'decode', shape.decode ?? D0);
  clock.advance(shape.ttfbMs);
  decode.headers(200, {});
  trace.responded(200);
  trace.chunk(50, 1);
  for (const gap of shape.gaps) {
    clock.advance(gap);
    trace.chunk(50, 1);
  }
  if (shape.completionTokens !== undefined) {
    trace.chunk(60, 1);
    decode.facts({ usage: { completionTokens: shape.completionTokens } });
  }
  trace.chunk(14, 1);
  decode.end('ok');
  trace.end('ok');
  return trace;
}
