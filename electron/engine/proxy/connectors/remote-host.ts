/**
 * The address of the NIXL side channel that an engine reports in its kv_transfer_params. Without
 * VLLM_NIXL_SIDE_CHANNEL_HOST engines report `localhost` (vllm/envs.py), which the peer on another machine would take
 * for itself. A real address is kept: it may belong to a transfer network that the proxy does not see.
 */
import type { Verdict } from '#shared/findings.ts';
import { kindOfHost } from '../../fleet/host-kind.ts';
import type { Instance } from '../../fleet/instance.ts';
import { editMembers, jsonKey, lastValueOf, memberValue, scanMembers } from '../json-members.ts';

const REMOTE_HOST = 'remote_host';
const REMOTE_HOST_KEY = jsonKey(REMOTE_HOST);
const QUOTE = 0x22;

export interface CorrectedHost {
  /** The same JSON text with another `remote_host`. */
  readonly params: Buffer;
  readonly reported: string;
  readonly host: string;
}

/**
 * Replaces an unspecified `remote_host` (0.0.0.0, ::, empty), or a loopback one (127/8, ::1, localhost) of an instance
 * that is reached over another address, by the host of the instance's own address.
 * @param params the object as JSON text. @returns undefined when it stays as it is.
 */
export function correctRemoteHost(params: Buffer, instance: Instance): CorrectedHost | undefined {
  const last = lastValueOf(params, REMOTE_HOST_KEY);
  // The usual case without a walk over thousands of block ids: one such key, and an address that stays.
  const isOnlyOne = last !== undefined && params.indexOf(REMOTE_HOST_KEY) === params.lastIndexOf(REMOTE_HOST_KEY);
  if (isOnlyOne && isReal(textOf(last))) return undefined;
  const members = scanMembers(params);
  const value = members === undefined ? undefined : memberValue(params, members, REMOTE_HOST);
  if (members === undefined || value === undefined) return undefined;
  const reported = textOf(value);
  if (reported === undefined || isReal(reported)) return undefined;
  const host = new URL(instance.origin).hostname.replace(/^\[|\]$/g, '');
  const own = kindOfHost(host);
  if (own === 'unspecified' || (own === 'loopback' && kindOfHost(reported) === 'loopback')) return undefined;
  return { params: editMembers(params, members, new Map([[REMOTE_HOST, JSON.stringify(host)]])), reported, host };
}

export function remoteHostVerdict({ reported, host }: CorrectedHost, instance: Instance, hop: NonNullable<Verdict['hop']>): Verdict {
  const what = reported === '' ? 'an empty remote_host' : `remote_host ${reported}`;
  return {
    code: 'remote_host_corrected',
    severity: 'warning',
    title: 'An instance reports a side channel that others cannot reach',
    message: `${instance.name} (${instance.origin}) reported ${what}; pdscope put ${host} there.`,
    nextStep: `Set VLLM_NIXL_SIDE_CHANNEL_HOST on ${instance.name} to an address that the other instances reach; without it engines report localhost.`,
    hop,
    instance: instance.id,
  };
}

/** What is no text stays: that is the engine's business, and the linter's. */
function isReal(host: string | undefined): boolean {
  return host === undefined || kindOfHost(host) === 'real';
}

function textOf(json: Buffer): string | undefined {
  if (json[0] !== QUOTE) return undefined;
  try {
    return JSON.parse(json.toString('utf8')) as string;
  } catch {
    // Not JSON: relayed as it is.
    return undefined;
  }
}
