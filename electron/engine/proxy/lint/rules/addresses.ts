/** Addresses that mean something else on another machine. */
import { cut } from '../../../cut-text.ts';
import { kindOfHost } from '../../../fleet/host-kind.ts';
import type { Instance } from '../../../fleet/instance.ts';
import { checks, type Effect, type Rule } from '../rule.ts';
import { hostOf } from './common.ts';

function isLocalOnly(host: string): boolean {
  return kindOfHost(host) !== 'real';
}

/** Whether two instances are on machines of their own, as far as their addresses say. */
function areApart(a: Instance, b: Instance): boolean {
  const [hostA, hostB] = [hostOf(a), hostOf(b)];
  return hostA !== hostB && !(isLocalOnly(hostA) && isLocalOnly(hostB));
}

/**
 * A host that only means something on the giver's own machine, although the reader is elsewhere. vLLM's side channel
 * host is `localhost` unless VLLM_NIXL_SIDE_CHANNEL_HOST says otherwise (vllm/envs.py), whatever the instance listens on.
 * Seen on the leg to the reader, so what a connector has corrected is not reported a second time.
 */
export function hostReachable(code: string, field: string, hostIn: (value: string) => string | undefined, effect?: Effect): Rule {
  return checks(
    {
      code,
      severity: 'error',
      title: 'The reader is told to fetch KV from its own machine',
      nextStep: 'Start the engine with VLLM_NIXL_SIDE_CHANNEL_HOST (VLLM_HOST_IP) set to an address that other instances reach.',
      about: 'giver',
      ...(effect !== undefined && { effect }),
    },
    ({ params, memory, leg }) => {
      const value = params?.string(field);
      const host = value === undefined ? undefined : hostIn(value);
      const giver = memory.prefill?.instance;
      if (value === undefined || host === undefined || giver === undefined || leg.kind !== 'decode' || !isLocalOnly(host)) return undefined;
      if (!areApart(giver, leg.instance)) return undefined;
      return `${field} is ${value === '' ? 'empty' : cut(value, 80)}; prefill is on ${hostOf(giver)}, decode on ${hostOf(leg.instance)}.`;
    },
  );
}

/** The host of `http://host:port` or `host:port`. */
export function hostOfUrl(url: string): string | undefined {
  const found = /^(?:[a-z]+:\/\/)?(\[[^\]]*\]|[^:/]*)/i.exec(url);
  return found?.[1];
}
