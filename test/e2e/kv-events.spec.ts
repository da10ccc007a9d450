import type { Locator, Page } from '@playwright/test';
import { expect, openView, test } from './support/fixtures.ts';

const list = (page: Page): Locator => page.getByRole('grid', { name: 'KV-cache events, newest first' });
const rows = (page: Page): Locator => list(page).locator('[data-row-id]');

test.beforeEach(async ({ app }) => {
  await openView(app, 'kv-events');
  await expect(rows(app).nth(3)).toBeVisible();
});

test('events arrive by themselves, and every stream says how it is', async ({ app, host }) => {
  const newest = await rows(app).first().getAttribute('data-row-id');
  await expect(rows(app).first()).not.toHaveAttribute('data-row-id', newest ?? '');
  const streams = app.getByRole('region', { name: 'KV-event streams' });
  const { streams: known } = await host.call('state.get', {});
  expect(known.length).toBeGreaterThan(0);
  await expect(streams.locator('tbody tr')).toHaveCount(known.length);
  await expect(streams.locator('tbody tr').first()).toContainText('P0/0');
});

test('an event is explained, and leads to every holder of its block', async ({ app }) => {
  await app.getByLabel('Filter', { exact: true }).fill('type:stored');
  await app.keyboard.press('Enter');
  await rows(app).filter({ hasText: 'stored' }).first().click();
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
  const before = (await host.call('state.get', {})).streams.find(({ instanceName }) => instanceName === 'P1')?.gaps ?? 0;
  const instance = (await host.call('state.get', {})).instances.find(({ name }) => name === 'P1');
  if (instance === undefined) throw new Error('the demo has no P1');
  await host.call('sim.fault', { id: instance.id, fault: 'event-gap', amount: 3 });
  await expect
    .poll(async () => (await host.call('state.get', {})).streams.find(({ instanceName }) => instanceName === 'P1')?.gaps ?? 0, { timeout: 20_000 })
    .toBeGreaterThan(before);
  await host.call('sim.fault', { id: instance.id, fault: 'none' });
  await app.getByLabel('Filter', { exact: true }).fill('type:gap');
  await app.keyboard.press('Enter');
  await expect(rows(app).first()).toContainText('P1');
  await expect(app.getByRole('contentinfo', { name: 'Status' })).toContainText(/gap/);
});

test('a restart of an engine starts a new epoch', async ({ app, host }) => {
  const instance = (await host.call('state.get', {})).instances.find(({ name }) => name === 'D1');
  if (instance === undefined) throw new Error('the demo has no D1');
  await host.call('sim.fault', { id: instance.id, fault: 'restart' });
  await expect
    .poll(async () => (await host.call('state.get', {})).streams.find(({ instanceName }) => instanceName === 'D1')?.epochs ?? 0, { timeout: 30_000 })
    .toBeGreaterThan(1);
  await app.getByLabel('Filter', { exact: true }).fill('type:restart');
  await app.keyboard.press('Enter');
  await expect(rows(app).first()).toContainText('D1');
});

test('pausing freezes the list while events go on', async ({ app }) => {
  await app.keyboard.press('p');
  const frozen = await rows(app).first().getAttribute('data-row-id');
  const button = app.getByRole('button', { name: /resume/ });
  await expect(button).toContainText(/[1-9]\d* arrived/);
  await expect(rows(app).first()).toHaveAttribute('data-row-id', frozen ?? '');
  await button.click();
  await expect(rows(app).first()).not.toHaveAttribute('data-row-id', frozen ?? '');
});

test('clearing asks once, then forgets the events and not the blocks', async ({ app, host }) => {
  const { total } = await host.call('kv.blocks', {});
  const { kept } = (await host.call('state.get', {})).rings.kv;
  await app.getByRole('button', { name: 'clear', exact: true }).click();
  await app.getByRole('alertdialog').getByRole('button', { name: 'Clear KV events' }).click();
  await expect(app.getByRole('alertdialog')).toHaveCount(0);
  await expect.poll(async () => (await host.call('state.get', {})).rings.kv.kept).toBeLessThan(kept / 2);
  expect((await host.call('kv.blocks', {})).total).toBeGreaterThan(total / 2);
});
