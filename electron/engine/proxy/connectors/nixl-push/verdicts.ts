/** What the NIXL push connector concludes about requests. */
import type { Verdict } from '#shared/findings.ts';
import type { Instance } from '../../../fleet/instance.ts';
import type { Coordinates } from './coordinates.ts';

export function staleCoordinates(instance: Instance, told: Coordinates, found: Coordinates | undefined, why: string): Verdict {
  const place = ({ engineId, host, port }: Coordinates): string => `${engineId} at ${host}:${port}`;
  return {
    code: 'prefill_restarted',
    severity: 'warning',
    title: 'Prefill restarted while decode waited for its KV',
    message: `Decode was told ${place(told)}; ${found === undefined ? why : `${instance.name} answered as ${place(found)}`}. The pair was cancelled instead of waiting for the engine's timeout.`,
    nextStep: `If ${instance.name} did not restart, several data-parallel ranks answer behind its address: give pdscope their number (dpSize).`,
    hop: 'proxy->decode',
    instance: instance.id,
  };
}
