/**
 * Four prefill and four decode instances, some of which misbehave: every view says so where a person would look for it, and
 * its picture is kept for a person to look at.
 */
import type { Page } from '@playwright/test';
import type { InstanceId } from '#shared/ids.ts';
import type { SimFault } from '#shared/operations.ts';
import { expect, openView, takePicture, test as base } from './support/fixtures.ts';
import { startHeadlessHost, type HeadlessHost } from './support/headless-host.ts';
import { LiveList } from './support/live-list.ts';

const FAULTS = { P1: 'event-gap', P2: 'slow', P3: 'wrong-cached-tokens', D0: 'refuse', D1: 'restart', D3: 'error-500' } as const satisfies Record<string, SimFault>;
/** Some things show after so many requests, which take their time on a slow machine. */
const MANY_REQUESTS = { timeout: 180_000 };

const test = base.extend<object, { readonly host: HeadlessHost }>({
  host: [
    async ({ browserName: _browser }, use) => {
      await using host = await startHeadlessHost(['--demo', '4P4D', '--demo-rate', '8']);
      const { instances } = await host.call('state.get', {});
      const idOf = (name: string): InstanceId => {
        const found = instances.find((instance) => instance.name === name);
        if (found === undefined) throw new Error(`the demo has no ${name}`);
        return found.id;
      };
      // An engine has something to lose once it published.
      await expect.poll(async () => (await host.call('state.get', {})).streams.every(({ batches }) => batches > 0), MANY_REQUESTS).toBe(true);
      for (const [name, fault] of Object.entries(FAULTS)) await host.call('sim.fault', { id: idOf(name), fault, ...(fault === 'event-gap' && { amount: 3 }) });
      await use(host);
    },
    { scope: 'worker', timeout: 360_000 },
  ],
});

/** The line of the table `name` that begins with an instance. */
const lineOf = (page: Page, name: string, instance: string) => page.getByRole('region', { name }).getByRole('row').filter({ hasText: instance });

test('every view of a cluster of 4P4D with faults on shows what is wrong', async ({ app, host }) => {
  test.slow();
  const streamOf = async (name: string) => (await host.call('state.get', {})).streams.find(({ instanceName }) => instanceName === name);
  await expect.poll(async () => [((await streamOf('P1'))?.gaps ?? 0) > 0, ((await streamOf('D1'))?.epochs ?? 0) > 1], MANY_REQUESTS).toEqual([true, true]);
  await expect.poll(async () => (await host.call('findings.list', {})).findings.some(({ instanceName }) => instanceName === 'P3'), MANY_REQUESTS).toBe(true);

  await openView(app, 'overview');
  await expect(app.getByRole('row').filter({ hasText: 'D0' }).first()).toContainText('down');
  await takePicture(app, 'faulty-overview');

  await openView(app, 'kv-events');
  await expect(lineOf(app, 'KV-event streams', 'P1/0').locator('td').nth(4)).toHaveText(/^[1-9]\d* · /);
  await expect(lineOf(app, 'KV-event streams', 'D1/0').locator('td').nth(8)).toHaveText(/^([2-9]|\d\d+)$/);
  const events = new LiveList(app, 'kv-events');
  await events.filterBy('type:gap,filled,lost,restart');
  await expect(events.rows.first()).toBeVisible();
  await takePicture(app, 'faulty-kv-events');

  await openView(app, 'requests');
  const requests = new LiveList(app, 'requests');
  await requests.filterBy('retries>0');
  await expect(requests.rows.first()).toBeVisible(MANY_REQUESTS);
  await requests.select();
  await takePicture(app, 'faulty-requests');

  await openView(app, 'cache');
  for (const section of ['Hits', 'Causes', 'Residency', 'Prefix tree', 'P vs D', 'Storms']) {
    await app.getByRole('tab', { name: section }).click();
    await expect(app.getByText(/^Asking the engine/)).toHaveCount(0);
    await takePicture(app, `faulty-cache-${section.toLowerCase().replaceAll(' ', '-')}`);
  }

  await openView(app, 'instances');
  await expect(app.getByRole('row').filter({ hasText: 'D0' }).first()).toContainText('down');
  await takePicture(app, 'faulty-instances');

  await openView(app, 'findings');
  await expect(app.getByRole('row').filter({ hasText: 'P3' }).first()).toBeVisible();
  await takePicture(app, 'faulty-findings');
});
