import type { Locator, Page } from '@playwright/test';
import { withoutClients } from './support/aside.ts';
import { expect, openView, test } from './support/fixtures.ts';
import type { HeadlessHost } from './support/headless-host.ts';
import { LiveList, WHOLE_REQUEST } from './support/live-list.ts';

const lines = (page: Page): Locator => page.getByRole('treeitem').and(page.locator('[data-node]'));

async function openSection(page: Page, section: 'Hits' | 'Causes' | 'Residency' | 'Prefix tree' | 'P vs D' | 'Storms'): Promise<void> {
  await openView(page, 'cache');
  await page.getByRole('tab', { name: section, exact: true }).click();
  await expect(page.getByRole('tab', { name: section, exact: true })).toHaveAttribute('aria-selected', 'true');
}

/** Waits until the page has the top of the tree in the engine's order: its lines move when they are asked for again. */
async function expectNewestTree(page: Page, host: HeadlessHost): Promise<void> {
  const { children } = await host.call('cache.tree', {});
  const wanted = children.map(({ node }) => String(node));
  await expect.poll(async () => {
    const shown = await lines(page).evaluateAll((elements) => elements.map((element) => element.getAttribute('data-node')));
    return shown.length > 0 && shown.every((node, index) => node === wanted[index]);
  }).toBe(true);
}

test('the prefix tree fills from live events, opens by keyboard and leads to a block', async ({ app, host }) => {
  await openSection(app, 'Prefix tree');
  await expect(lines(app).first()).toBeVisible();
  const { totalNodes } = await host.call('cache.tree', {});
  expect(totalNodes).toBeGreaterThan(0);
  await app.getByRole('tree', { name: 'Prefix tree' }).focus();
  await app.keyboard.press('Enter');
  await expect(app).toHaveURL(/sel=\d+/);
  const block = app.getByRole('region', { name: 'Block detail' });
  await expect(block.getByRole('heading', { name: /of its prompt/ })).toBeVisible();
  await expect(block).toContainText('token ids');
  await app.keyboard.press('Escape');
  await expect(block).toHaveCount(0);
  // The tree was not built anew when the block came and went.
  await expect(app.getByRole('tree', { name: 'Prefix tree' })).toBeFocused();
});

test('a cell of the residency map leads to its block, and the table has the same cells', async ({ app, host }) => {
  await openSection(app, 'Residency');
  const map = app.locator('canvas').first();
  await expect(map).toBeVisible();
  await map.click({ position: { x: 3, y: 3 } });
  await expect(app.getByRole('region', { name: 'Block detail' }).getByRole('heading', { name: /of its prompt/ })).toBeVisible();
  await app.getByRole('button', { name: 'table', exact: true }).click();
  const { rows } = await host.call('cache.residency', { cells: 512 });
  await expect(app.getByRole('table', { name: /^Cells by/ }).locator('tbody tr')).toHaveCount(rows.length);
});

test('hit rates are kept apart by source', async ({ app, host }) => {
  await openSection(app, 'Hits');
  await expect.poll(async () => (await host.call('cache.hits', {})).series.some(({ source, whole }) => source === 'engine-local' && (whole?.queryTokens ?? 0) > 0)).toBe(true);
  await app.getByRole('button', { name: 'table', exact: true }).click();
  const fleet = app.getByRole('row', { name: /^fleet/ });
  await expect(fleet).toContainText(/\d %/);
});

test('a link shows what was opened, hidden and put into a table', async ({ app, host }) => {
  await withoutClients(host, async () => {
    await openSection(app, 'Prefix tree');
    await expectNewestTree(app, host);
    const opened = await lines(app).and(app.locator('[aria-expanded="false"]')).first().getAttribute('data-node');
    await app.locator(`[data-node="${opened}"]`).getByText('▸', { exact: true }).click();
    await expect(app).toHaveURL(new RegExp(`open=${opened}(&|$)`));
    await app.reload();
    await expect(app.locator(`[data-node="${opened}"]`)).toHaveAttribute('aria-expanded', 'true');
  });

  await openSection(app, 'Hits');
  await expect(app).not.toHaveURL(/open=/);
  await app.getByRole('list', { name: 'Lines' }).getByRole('button', { name: 'engine, local' }).click();
  await app.reload();
  await expect(app.getByRole('list', { name: 'Lines' }).getByRole('button', { name: 'engine, local' })).toHaveAttribute('aria-pressed', 'false');
  await app.getByRole('button', { name: 'table', exact: true }).click();
  await app.reload();
  await expect(app.getByRole('row', { name: /^fleet/ })).toBeVisible();
});

test('a request says why it missed', async ({ app, host }) => {
  await openView(app, 'requests');
  const list = new LiveList(app, 'requests');
  await list.filterBy(WHOLE_REQUEST);
  await list.select();
  await app.getByRole('tab', { name: 'Why a miss' }).click();
  const pane = app.getByRole('region', { name: 'Request detail' });
  await expect(pane.getByText(/prompt tokens .*were in the cache|cannot be told/)).toBeVisible();
  expect((await host.call('cache.misses', {})).windowS).toBe(300);
});

test('the frames of an event are shown as they came', async ({ app }) => {
  await openView(app, 'kv-events');
  const list = new LiveList(app, 'kv-events');
  await list.filterBy('type:stored');
  await list.select();
  await app.getByRole('tab', { name: 'Raw frames' }).click();
  const pane = app.getByRole('region', { name: 'Event and resident blocks' });
  await expect(pane.getByRole('region', { name: 'sequence frame' })).toContainText('big-endian');
  await expect(pane.getByLabel('Decoded payload').locator('pre')).toContainText('BlockStored');
});
