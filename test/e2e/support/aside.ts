/** The demo's clients held back: for instances that only a test makes work, and for lists that must keep still. */
import type { InstanceId } from '#shared/ids.ts';
import type { OperationInput } from '#shared/operations.ts';
import { expect } from './fixtures.ts';
import type { HeadlessHost } from './headless-host.ts';

/** Runs `use` while no client of the demo sends anything and nothing is under way. */
export async function withoutClients<T>(host: HeadlessHost, use: () => Promise<T>): Promise<T> {
  const { simulation } = await host.call('state.get', {});
  if (simulation === undefined) throw new Error('the host runs no demo');
  await host.call('sim.traffic', { requestsPerSecond: 0 });
  try {
    await expect.poll(async () => (await host.call('state.get', {})).totals.running).toBe(0);
    return await use();
  } finally {
    await host.call('sim.traffic', { requestsPerSecond: simulation.requestsPerSecond });
  }
}

/**
 * Adds an instance to follow its KV events, and disables it. Clients are held back until then: an instance serves from
 * the moment that it is up, which may come before it can be disabled.
 */
export function addAside(host: HeadlessHost, spec: OperationInput<'instance.add'>): Promise<InstanceId> {
  return withoutClients(host, async () => {
    const { id } = await host.call('instance.add', spec);
    await host.call('instance.disable', { id });
    return id;
  });
}
