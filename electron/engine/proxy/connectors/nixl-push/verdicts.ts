/** What the NIXL push connector concludes about requests. */
import type { Verdict } from '#shared/findings.ts';
import type { Instance } from '../../../fleet/instance.ts';
import type { Coordinates } from './coordinates.ts';

/** Push and pull engines never interoperate (NIXL_CONNECTOR_VERSION's compatibility hash, nixl/metadata.py). */
export function notPushMode(instance: Instance, why: string): Verdict {
  return {
    code: 'transfer_mode_mismatch',
    severity: 'error',
    title: 'Prefill does not run the push connector',
    message: `${instance.name} pulls or is too old (${why}); decode computed the prompt itself, because an engine that pulls dies when it is told to fetch without block ids.`,
    nextStep: 'Start prefill and decode instances with kv_connector NixlPushConnector, or choose the protocol nixl.',
    hop: 'prefill->proxy',
    instance: instance.id,
  };
}

export function staleCoordinates(instance: Instance, told: Coordinates, found: Coordinates | undefined, why: string): Verdict {
  const place = ({ engineId, host, port }: Coordinates): string => `${engineId} at ${host}:${port}`;
  return {
    code: 'stale_engine_id',
    severity: 'warning',
    title: 'Prefill restarted while decode waited for its KV',
    message: `Decode was told ${place(told)}; ${found === undefined ? why : `${instance.name} answered as ${place(found)}`}. The pair was cancelled instead of waiting for the engine's timeout.`,
    nextStep: `If ${instance.name} did not restart, several data-parallel ranks answer behind its address: give pdscope their number (dpSize).`,
    hop: 'proxy->decode',
    instance: instance.id,
  };
}
