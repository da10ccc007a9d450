import type { Locator } from '@playwright/test';
import { expect, openView, test } from './support/fixtures.ts';
import { expectInAddress, LiveList, WHOLE_REQUEST } from './support/live-list.ts';

const topOf = async (locator: Locator): Promise<number> => (await locator.boundingBox())?.y ?? Number.NaN;

test.beforeEach(async ({ app }) => {
  await openView(app, 'requests');
  await expect(new LiveList(app, 'requests').rows.nth(5)).toBeVisible();
});

test('rows arrive by themselves, with the legs they took', async ({ app }) => {
  const { rows } = new LiveList(app, 'requests');
  const first = await rows.first().getAttribute('data-row-id');
  await expect(rows.first()).not.toHaveAttribute('data-row-id', first ?? '');
  await expect(rows.filter({ hasText: /P\d.*D\d/ }).first()).toBeVisible();
});

test('the counters come from the same moment as the rows', async ({ app }) => {
  await new LiveList(app, 'requests').pause();
  const text = (await app.getByTestId('counters').textContent()) ?? '';
  const read = (label: string): number => Number(new RegExp(`${label} ([\\d,]+)`).exec(text)?.[1]?.replaceAll(',', '') ?? Number.NaN);
  expect(read('shown')).toBeGreaterThan(5);
  // The page and the engine keep as many, so this holds whatever the time that the tests before took.
  expect(read('shown')).toBe(read('matching'));
  expect(read('total')).toBe(read('shown') + read('evicted'));
  expect(read('dropped')).toBe(0);
});

test('pausing freezes the list while recording goes on, and resuming shows what came', async ({ app }) => {
  const list = new LiveList(app, 'requests');
  await list.pause();
  const frozen = await list.rows.first().getAttribute('data-row-id');
  await expect(list.resumeButton).toContainText(/[1-9][\d,]* arrived/);
  await expect(list.rows.first()).toHaveAttribute('data-row-id', frozen ?? '');
  await list.resume();
  await expect(list.rows.first()).not.toHaveAttribute('data-row-id', frozen ?? '');
});

test('a selected row stays selected and under the cursor while newer ones arrive', async ({ app }) => {
  const list = new LiveList(app, 'requests');
  const id = await list.select(2);
  await expect(app.getByRole('tab', { name: 'Waterfall' })).toBeVisible();
  const top = await topOf(list.selected);
  const pill = list.grid.locator('xpath=..').getByRole('button', { name: /new$/ });
  await expect(pill).toBeVisible();
  expect(await list.selectedId()).toBe(id);
  expect(await topOf(list.selected)).toBe(top);
  await pill.click();
  await expect(pill).toHaveCount(0);
});

test('a finished request is explained leg by leg, with the rest that nobody can attribute', async ({ app }) => {
  const list = new LiveList(app, 'requests');
  // Without a prefill leg there is no handoff to show: the demo also sends prompts that rule it out.
  await list.filterBy(WHOLE_REQUEST);
  await list.select();
  const detail = app.getByRole('region', { name: 'Request detail' });
  await expect(detail.getByRole('img').first()).toBeVisible();
  await expect(detail).toContainText(/unattributed/i);
  await detail.getByRole('tab', { name: 'Hops' }).click();
  await expect(detail).toContainText('kv_transfer_params');
  await detail.getByRole('tab', { name: 'Routing' }).click();
  await expect(detail).toContainText(/prefill/);
  await detail.getByRole('tab', { name: 'Tokens' }).click();
  await expect(detail.getByRole('tabpanel')).toBeVisible();
});

test('the filter is evaluated by the engine, read out, and kept in the address', async ({ app }) => {
  const list = new LiveList(app, 'requests');
  await list.filterBy('decode:D0');
  await expect(list.rows.first()).toBeVisible();
  expect((await list.rows.allTextContents()).filter((text) => !text.includes('D0'))).toEqual([]);
  await app.reload();
  await expect(list.filterField).toHaveValue('decode:D0');
  await expect(list.rows.first()).toContainText('D0');
});

test('a filter that hides everything says so and offers the way out', async ({ app }) => {
  const list = new LiveList(app, 'requests');
  await list.filterBy('ttft>100000000');
  await expect(app.getByText('The filter hides everything')).toBeVisible();
  await app.getByRole('button', { name: 'Clear the filter' }).click();
  await expect(list.rows.first()).toBeVisible();
});

test('a filter with a mistake points at it and leaves the rows alone', async ({ app }) => {
  const { filterField, rows } = new LiveList(app, 'requests');
  await filterField.fill('ttft>abc');
  await expect(filterField).toHaveAttribute('aria-invalid', 'true');
  await expect(rows.first()).toBeVisible();
});

test('the keyboard alone: j and k, slash, Escape, brackets, End and Home', async ({ app }) => {
  const list = new LiveList(app, 'requests');
  const { grid, selected, filterField } = list;
  const selectedId = (): Promise<string> => list.selectedId();
  await app.keyboard.press('j');
  await expect(selected).toHaveCount(1);
  const first = await selectedId();
  await app.keyboard.press('j');
  await expect.poll(selectedId).not.toBe(first);
  await app.keyboard.press('k');
  await expect.poll(selectedId).toBe(first);

  await app.keyboard.press('Control+]');
  await expect(app.getByRole('region', { name: 'Request detail' })).toBeFocused();
  await app.keyboard.press('Control+[');
  await expect(grid).toBeFocused();
  await app.keyboard.press('End');
  await expect.poll(selectedId).not.toBe(first);
  await app.keyboard.press('Home');
  await expect(selected).toHaveCount(1);

  await app.keyboard.press('/');
  await expect(filterField).toBeFocused();
  await app.keyboard.type('jk');
  await expect(filterField).toHaveValue('jk');
  await filterField.fill('');
  await app.keyboard.press('Enter');
  await expect(grid).toBeFocused();
  await app.keyboard.press('Escape');
  await expect(selected).toHaveCount(0);
});

test('a link leads another page to the same request', async ({ app, context }) => {
  const id = await new LiveList(app, 'requests').select(1);
  const other = await context.newPage();
  await other.goto(app.url());
  await expect(other.getByRole('region', { name: 'Request detail' })).toBeVisible();
  await expectInAddress(other, 'sel', id);
  await other.close();
});

test('a comparison with a pinned request, and what was folded, are part of the link', async ({ app }) => {
  const list = new LiveList(app, 'requests');
  await list.filterBy(WHOLE_REQUEST);
  await expect(list.rows.nth(1)).toBeVisible();
  await list.pause();
  await list.rows.nth(1).click();
  const pinned = await list.selectedId();
  const pane = app.getByRole('region', { name: 'Request detail' });
  await expect(pane.getByTestId('ttft-sum')).toBeVisible();
  await pane.getByRole('button', { name: 'Pin', exact: true }).click();
  await expect(list.rows.first()).toHaveAttribute('data-row-id', pinned);
  // Below the pin, which is shown at its old place, too.
  await list.rows.nth(1).click();
  await pane.getByRole('tab', { name: 'Hops' }).click();
  const headers = pane.locator('details').filter({ hasText: 'request headers' }).first();
  await headers.locator('summary').click();
  await expect(headers).toHaveAttribute('open');
  await pane.getByRole('tab', { name: 'Compare' }).click();
  await expect(pane.getByRole('table', { name: 'Phase by phase' })).toBeVisible();
  await app.reload();
  await expect(pane.getByRole('table', { name: 'Phase by phase' })).toBeVisible();
  await expect(list.rows.first()).toHaveAttribute('data-row-id', pinned);
  await pane.getByRole('tab', { name: 'Hops' }).click();
  await expect(headers).toHaveAttribute('open');
});

test('leaving with a row selected shows the next view, not a blank page', async ({ app }) => {
  await new LiveList(app, 'requests').select(2);
  await expect(app.getByRole('tab', { name: 'Waterfall' })).toBeVisible();
  await app.getByRole('link', { name: /^KV events/ }).click();
  await expect(app.getByRole('heading', { level: 1, name: 'KV events' })).toBeVisible();
  await app.getByRole('link', { name: /^Instances/ }).click();
  await expect(app.getByRole('heading', { level: 1, name: 'Instances' })).toBeVisible();
});
