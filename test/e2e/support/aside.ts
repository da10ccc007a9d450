/** Instances that only a test makes work: the demo's clients never reach them. */
import type { InstanceId } from '#shared/ids.ts';
import type { OperationInput } from '#shared/operations.ts';
import { expect } from './fixtures.ts';
import type { HeadlessHost } from './headless-host.ts';

/**
 * Adds an instance to follow its KV events, and disables it. Clients are held back until then: an instance serves from
 * the moment that it is up, which may come before it can be disabled.
 */
export async function addAside(host: HeadlessHost, spec: OperationInput<'instance.add'>): Promise<InstanceId> {
  const { simulation } = await host.call('state.get', {});
  if (simulation === undefined) throw new Error('the host runs no demo');
  await host.call('sim.traffic', { requestsPerSecond: 0 });
  try {
    await expect.poll(async () => (await host.call('state.get', {})).totals.running).toBe(0);
    const { id } = await host.call('instance.add', spec);
    await host.call('instance.disable', { id });
    return id;
  } finally {
    await host.call('sim.traffic', { requestsPerSecond: simulation.requestsPerSecond });
  }
}
