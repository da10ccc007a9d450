/** A proxy with MoRIIO in force, and scripted engines that register with it. */
import type { Verdict } from '#shared/findings.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { CHAT_BODY, post, startHarness, until, type Harness, type HarnessOptions } from './harness.ts';
import { startPinger, v2, type Pinger, type V2Options } from './moriio-engine.ts';
import { events, json, startUpstream, type ReceivedRequest, type Script, type ScriptedUpstream } from './scripted-upstream.ts';

/** As P answers in READ mode, with a number that JSON.parse would change. */
export const READ_PARAMS =
  '{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[1,2,3],"remote_engine_id":"10.0.0.1:6301","remote_host":"10.0.0.1","remote_handshake_port":"6301","remote_notify_port":"61005","remote_dp_size":1,"tp_size":1,"future":18446744073709551615}';

export function prefillAnswer(params = 'null', finish = 'length'): Script {
  return json(`{"id":"p","choices":[{"index":0,"message":{"content":"x"},"finish_reason":"${finish}"}],"usage":{"prompt_tokens":5,"completion_tokens":1},"kv_transfer_params":${params}}`);
}

export const ANSWER = ['data: {"choices":[{"delta":{"content":"hello"}}]}\n\n', 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n', 'data: [DONE]\n\n'];

export interface Cluster extends AsyncDisposable {
  readonly harness: Harness;
  readonly prefill: ScriptedUpstream;
  readonly decode: ScriptedUpstream;
  readonly pinger: Pinger;
  readonly findings: readonly Verdict[];
  /** Scripted, registered and joined. */
  addEngine(type: 'P' | 'D', script: Script, options?: V2Options): Promise<ScriptedUpstream>;
}

interface ClusterOptions extends V2Options {
  readonly prefillDp?: number;
  readonly decodeDp?: number;
  readonly message?: typeof v2;
  readonly harness?: Partial<HarnessOptions>;
}

export function endpointOf({ proxy }: Harness): string {
  const value = proxy.connectorStatus().facts.find(({ title }) => title === 'Registration socket')?.value;
  if (typeof value !== 'string') throw new Error('the status names no registration socket');
  return value;
}

export async function startMoriio(options: Partial<HarnessOptions> = {}): Promise<{ readonly harness: Harness; readonly findings: Verdict[] }> {
  const findings: Verdict[] = [];
  const harness = await startHarness({
    connector: 'moriio',
    linter: createLinter(),
    protocol: { moriioHost: '127.0.0.1', moriioPort: 0 },
    findings: { report: (verdict) => void findings.push(verdict) },
    ...options,
  });
  return { harness, findings };
}

export async function startCluster({ prefillDp = 1, decodeDp = 1, message = v2, harness: harnessOptions, ...engine }: ClusterOptions = {}): Promise<Cluster> {
  const { harness, findings } = await startMoriio(harnessOptions);
  const pinger = startPinger(endpointOf(harness));
  const upstreams: ScriptedUpstream[] = [];
  const addEngine: Cluster['addEngine'] = async (type, script, own = engine) => {
    const upstream = await startUpstream(script);
    upstreams.push(upstream);
    await pinger.send(message(type, upstream.port, own));
    await until(() => harness.scheduler.instances.find(({ origin }) => origin === upstream.origin));
    return upstream;
  };
  const prefill = await addEngine('P', prefillAnswer(engine.mode === 'READ' ? READ_PARAMS : 'null'), { ...engine, dp: prefillDp });
  const decode = await addEngine('D', events(ANSWER), { ...engine, dp: decodeDp });
  return {
    harness,
    prefill,
    decode,
    pinger,
    findings,
    addEngine,
    async [Symbol.asyncDispose]() {
      pinger[Symbol.dispose]();
      await harness[Symbol.asyncDispose]();
      await Promise.all(upstreams.map((upstream) => upstream.close()));
    },
  };
}

export function ask({ harness }: Cluster, body: object = {}, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
  return post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true, ...body }, { 'x-request-id': 'client-1', ...headers }, signal);
}

export function only(upstream: ScriptedUpstream): ReceivedRequest {
  const [request] = upstream.received;
  if (request === undefined || upstream.received.length !== 1) throw new Error(`${upstream.received.length} requests instead of one`);
  return request;
}

export function paramsOf(request: ReceivedRequest): Record<string, unknown> {
  return request.json['kv_transfer_params'] as Record<string, unknown>;
}

/** Holds a script back until the test lets it go. */
export function startGate(): { readonly passed: Promise<void>; open(): void } {
  let open = (): void => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open: () => open() };
}

export function codes(verdicts: readonly Verdict[]): readonly string[] {
  return verdicts.map(({ code }) => code);
}
