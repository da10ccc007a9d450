import type { InstanceId } from '#shared/ids.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { expect, openView, test } from './support/fixtures.ts';
import type { HeadlessHost } from './support/headless-host.ts';
import { LiveList } from './support/live-list.ts';

test.beforeEach(async ({ app }) => {
  await openView(app, 'kv-events');
  await expect(new LiveList(app, 'kv-events').rows.nth(3)).toBeVisible();
});

/** An instance of the demo and the stream of its KV events. */
async function find(host: HeadlessHost, wanted: string): Promise<{ readonly id: InstanceId; readonly stream: KvStreamView }> {
  const { instances, streams } = await host.call('state.get', {});
  const instance = instances.find(({ name }) => name === wanted);
  const stream = streams.find(({ instanceName }) => instanceName === wanted);
  if (instance === undefined || stream === undefined) throw new Error(`the demo has no ${wanted} with a stream`);
  return { id: instance.id, stream };
}

test('events arrive by themselves, and every stream says how it is', async ({ app, host }) => {
  const { rows } = new LiveList(app, 'kv-events');
  const newest = await rows.first().getAttribute('data-row-id');
  await expect(rows.first()).not.toHaveAttribute('data-row-id', newest ?? '');
  const streams = app.getByRole('region', { name: 'KV-event streams' });
  const { streams: known } = await host.call('state.get', {});
  expect(known.length).toBeGreaterThan(0);
  await expect(streams.locator('tbody tr')).toHaveCount(known.length);
  await expect(streams.locator('tbody tr').filter({ hasText: 'P0/0' })).toBeVisible();
});

test('an event is explained, and leads to every holder of its block', async ({ app }) => {
  const list = new LiveList(app, 'kv-events');
  await list.filterBy('type:stored');
  await list.select();
  const pane = app.getByRole('region', { name: 'Event and resident blocks' });
  await expect(pane.getByRole('heading', { name: /stored on/ })).toBeVisible();
  await expect(pane).toContainText('sequence number');
  await pane.getByRole('button', { name: 'Who holds it' }).click();
  await expect(pane.getByRole('tab', { name: 'Resident blocks' })).toHaveAttribute('aria-selected', 'true');
  await expect(pane.getByLabel('Beginning of the block hash, hex')).toHaveValue(/^[0-9a-f]{16,}$/);
});

test('resident blocks are counted in full and narrowed by medium and stream', async ({ app, host }) => {
  const pane = app.getByRole('region', { name: 'Event and resident blocks' });
  await expect(pane).toContainText(/matching [1-9][\d,]* of [\d,]+ resident/);
  await pane.getByLabel('Stream').selectOption({ label: 'P0/0' });
  await expect.poll(async () => [...new Set(await pane.locator('table', { hasText: 'hash' }).locator('tbody tr td:nth-child(3)').allTextContents())]).toEqual(['P0']);
  const { total } = await host.call('kv.blocks', {});
  expect(total).toBeGreaterThan(0);
});

test('a gap in a stream is seen, counted and shown as a line of its own', async ({ app, host }) => {
  const { id, stream: before } = await find(host, 'P1');
  await host.call('sim.fault', { id, fault: 'event-gap', amount: 3 });
  await expect.poll(async () => (await find(host, 'P1')).stream.gaps).toBeGreaterThan(before.gaps);
  await host.call('sim.fault', { id, fault: 'none' });
  const list = new LiveList(app, 'kv-events');
  await list.filterBy('type:gap instance:P1');
  await expect(list.rows.first()).toContainText('P1');
  await expect(list.rows.first()).toContainText('gap: 3 batches');
  await expect(app.getByRole('contentinfo', { name: 'Status' })).toContainText(/gap/);
});

test('a restart of an engine starts a new epoch', async ({ app, host }) => {
  const { id, stream: before } = await find(host, 'D1');
  await host.call('sim.fault', { id, fault: 'restart' });
  await expect.poll(async () => (await find(host, 'D1')).stream.epochs).toBeGreaterThan(before.epochs);
  const list = new LiveList(app, 'kv-events');
  await list.filterBy('type:restart instance:D1');
  await expect(list.rows.first()).toContainText('D1');
});

test('pausing freezes the list while events go on', async ({ app }) => {
  const list = new LiveList(app, 'kv-events');
  await app.keyboard.press('p');
  await expect(list.resumeButton).toBeVisible();
  const frozen = await list.rows.first().getAttribute('data-row-id');
  await expect(list.resumeButton).toContainText(/[1-9][\d,]* arrived/);
  await expect(list.rows.first()).toHaveAttribute('data-row-id', frozen ?? '');
  await list.resume();
  await expect(list.rows.first()).not.toHaveAttribute('data-row-id', frozen ?? '');
});

test('clearing asks once, then forgets the events and not the blocks', async ({ app, host }) => {
  const { total } = await host.call('kv.blocks', {});
  const rings = async () => (await host.call('state.get', {})).rings.kv;
  const before = await rings();
  expect(before.kept).toBeGreaterThan(0);
  await app.getByRole('button', { name: 'clear', exact: true }).click();
  await app.getByRole('alertdialog').getByRole('button', { name: 'Clear KV events' }).click();
  await expect(app.getByRole('alertdialog')).toHaveCount(0);
  // Events go on arriving: what is kept then is newer than what there was.
  await expect.poll(async () => {
    const { kept, total: recorded } = await rings();
    return kept - (recorded - before.total);
  }).toBeLessThanOrEqual(0);
  expect((await host.call('kv.blocks', {})).total).toBeGreaterThan(total / 2);
});
