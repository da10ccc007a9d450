/**
 * Where prefill is: what a decode instance must be told in push mode, and where it comes from, the prefill answer
 * (vllm/distributed/kv_transfer/kv_connector/v1/nixl/push_scheduler.py, push_worker.py).
 */
import type { Instance } from '../../../fleet/instance.ts';
import { memberValue, scanMembers, type JsonMember } from '../../json-members.ts';
import { correctRemoteHost, type CorrectedHost } from '../remote-host.ts';

export interface Coordinates {
  readonly engineId: string;
  /** As decode is told it. */
  readonly host: string;
  readonly port: number;
  readonly tpSize: number;
  readonly ppSize: number;
  /** `push`, when the engine names it (since 2026-08-14). */
  readonly transferMode: string | undefined;
  /** When the engine reported a host that means something else elsewhere. */
  readonly corrected: CorrectedHost | undefined;
}

export type ReadAnswer =
  | { readonly kind: 'push'; readonly coordinates: Coordinates; readonly params: Buffer; readonly members: readonly JsonMember[] }
  /** The engine runs another NIXL connector: `why` names what says so. */
  | { readonly kind: 'pull'; readonly why: string }
  /** An engine that is told such parameters raises KeyError, or waits for nothing. */
  | { readonly kind: 'unusable'; readonly why: string };

const OPEN_BRACE = 0x7b;

/** Reads the `kv_transfer_params` of a prefill answer. */
export function readAnswer(answered: Buffer | undefined, instance: Instance): ReadAnswer {
  if (answered === undefined || answered[0] !== OPEN_BRACE) {
    return { kind: 'unusable', why: `the prefill answer's kv_transfer_params were ${answered === undefined ? 'missing' : answered.toString('utf8', 0, 100)}` };
  }
  const corrected = correctRemoteHost(answered, instance);
  const params = corrected?.params ?? answered;
  const members = scanMembers(params);
  if (members === undefined) return { kind: 'unusable', why: "the prefill answer's kv_transfer_params are not valid JSON" };
  const value = (key: string): unknown => scalar(memberValue(params, members, key));
  const transferMode = textOf(value('transfer_mode'));
  const ppSize = sizeOf(value('pp_size'));
  const why = whyNotPush(transferMode, ppSize, instance);
  if (why !== undefined) return { kind: 'pull', why };
  const engineId = textOf(value('remote_engine_id'));
  const host = textOf(value('remote_host'));
  const port = sizeOf(value('remote_port'));
  const tpSize = sizeOf(value('tp_size'));
  if (engineId === undefined || host === undefined || port === undefined || tpSize === undefined) {
    const fields = { remote_engine_id: engineId, remote_host: host, remote_port: port, tp_size: tpSize };
    const missing = Object.entries(fields).flatMap(([name, found]) => (found === undefined ? [name] : []));
    return { kind: 'unusable', why: `the prefill answer lacks ${missing.join(', ')}` };
  }
  return { kind: 'push', coordinates: { engineId, host, port, tpSize, ppSize: ppSize ?? 1, transferMode, corrected }, params, members };
}

/** Whether `b` is the same place as `a`. */
export function isSamePlace(a: Coordinates, b: Coordinates): boolean {
  return a.engineId === b.engineId && a.host === b.host && a.port === b.port && a.tpSize === b.tpSize && a.ppSize === b.ppSize;
}

/** The parameters of a decode leg that starts before prefill has answered, up to the request id: JSON text. */
export function renderHead({ engineId, host, port, tpSize, ppSize, transferMode }: Coordinates): string {
  const object = {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_engine_id: engineId,
    remote_host: host,
    remote_port: port,
    tp_size: tpSize,
    pp_size: ppSize,
    ...(transferMode !== undefined && { transfer_mode: transferMode }),
  };
  return `${JSON.stringify(object).slice(0, -1)},"remote_request_id":`;
}

/**
 * A pull engine that is told to fetch without block ids dies (assert num_external_tokens == 0, vllm/v1/core/sched), so the
 * engine must be known to push: it says so, or names pp_size as only push answers do, or /server_info names its connector.
 */
function whyNotPush(transferMode: string | undefined, ppSize: number | undefined, { transfer }: Instance): string | undefined {
  if (transferMode === 'push') return undefined;
  if (transferMode !== undefined) return `transfer_mode is ${transferMode}`;
  if (ppSize !== undefined || transfer?.kvConnector === 'NixlPushConnector') return undefined;
  return 'neither transfer_mode nor pp_size is in its answer';
}

/** Only small values are parsed: block ids can be thousands. */
function scalar(json: Buffer | undefined): unknown {
  if (json === undefined || json.length > 2048) return undefined;
  try {
    return JSON.parse(json.toString('utf8'));
  } catch {
    // As if it were not there.
    return undefined;
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function sizeOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;
}
