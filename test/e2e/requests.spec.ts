import type { Locator, Page } from '@playwright/test';
import { expect, openView, test } from './support/fixtures.ts';

const list = (page: Page): Locator => page.getByRole('grid', { name: 'Requests, newest first' });
/** Rows of the list, without its header. */
const rows = (page: Page): Locator => list(page).locator('[data-row-id]');
const selected = (page: Page): Locator => list(page).locator('[aria-selected="true"]');
const selectedId = async (page: Page): Promise<string> => (await selected(page).getAttribute('data-row-id')) ?? '';
const topOf = async (locator: Locator): Promise<number> => (await locator.boundingBox())?.y ?? Number.NaN;

test.beforeEach(async ({ app }) => {
  await openView(app, 'requests');
  await expect(rows(app).nth(5)).toBeVisible();
});

test('rows arrive by themselves, with the legs they took', async ({ app }) => {
  const first = await rows(app).first().getAttribute('data-row-id');
  await expect(rows(app).first()).not.toHaveAttribute('data-row-id', first ?? '');
  await expect(rows(app).filter({ hasText: /P\d.*D\d/ }).first()).toBeVisible();
});

test('the counters come from the same moment as the rows', async ({ app }) => {
  await app.getByRole('button', { name: 'pause', exact: true }).click();
  const text = (await app.getByTestId('counters').textContent()) ?? '';
  const read = (label: string): number => Number(new RegExp(`${label} ([\\d,]+)`).exec(text)?.[1]?.replaceAll(',', '') ?? Number.NaN);
  expect(read('shown')).toBeGreaterThan(5);
  expect(read('shown')).toBe(read('matching'));
  expect(read('total')).toBe(read('shown') + read('evicted'));
  expect(read('dropped')).toBe(0);
});

test('pausing freezes the list while recording goes on, and resuming shows what came', async ({ app }) => {
  await app.getByRole('button', { name: 'pause', exact: true }).click();
  const frozen = await rows(app).first().getAttribute('data-row-id');
  const button = app.getByRole('button', { name: /resume/ });
  await expect(button).toContainText(/[1-9]\d* arrived/);
  await expect(rows(app).first()).toHaveAttribute('data-row-id', frozen ?? '');
  await button.click();
  await expect(rows(app).first()).not.toHaveAttribute('data-row-id', frozen ?? '');
});

test('a selected row stays selected and under the cursor while newer ones arrive', async ({ app }) => {
  await rows(app).nth(2).click();
  const id = await selectedId(app);
  const top = await topOf(selected(app));
  const pill = list(app).locator('xpath=..').getByRole('button', { name: /new$/ });
  await expect(pill).toBeVisible();
  expect(await selectedId(app)).toBe(id);
  expect(await topOf(selected(app))).toBe(top);
  await pill.click();
  await expect(pill).toHaveCount(0);
});

test('a finished request is explained leg by leg, with the rest that nobody can attribute', async ({ app }) => {
  // Without a prefill leg there is no handoff to show: the demo also sends prompts that rule it out.
  await app.getByLabel('Filter', { exact: true }).fill('state:ok stream:yes leg:prefill');
  await app.keyboard.press('Enter');
  await expect.poll(() => app.url()).toContain('leg%3Aprefill');
  await expect.poll(async () => (await rows(app).allTextContents()).every((text) => /P\d.*D\d/.test(text))).toBe(true);
  await expect(rows(app).first()).toBeVisible();
  await rows(app).first().click();
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
  const filter = app.getByLabel('Filter', { exact: true });
  await filter.fill('decode:D0');
  await app.keyboard.press('Enter');
  await expect.poll(() => app.url()).toContain('q=decode');
  await expect.poll(async () => (await rows(app).allTextContents()).every((text) => text.includes('D0'))).toBe(true);
  await expect(rows(app).first()).toBeVisible();
  await app.reload();
  await expect(app.getByLabel('Filter', { exact: true })).toHaveValue('decode:D0');
  await expect(rows(app).first()).toContainText('D0');
});

test('a filter that hides everything says so and offers the way out', async ({ app }) => {
  await app.getByLabel('Filter', { exact: true }).fill('ttft>100000000');
  await app.keyboard.press('Enter');
  await expect(app.getByText('The filter hides everything')).toBeVisible();
  await app.getByRole('button', { name: 'Clear the filter' }).click();
  await expect(rows(app).first()).toBeVisible();
});

test('a filter with a mistake points at it and leaves the rows alone', async ({ app }) => {
  await app.getByLabel('Filter', { exact: true }).fill('ttft>abc');
  await expect(app.getByLabel('Filter', { exact: true })).toHaveAttribute('aria-invalid', 'true');
  await expect(rows(app).first()).toBeVisible();
});

test('the keyboard alone: j and k, slash, Escape, brackets, End and Home', async ({ app }) => {
  await app.keyboard.press('j');
  await expect(selected(app)).toHaveCount(1);
  const first = await selectedId(app);
  await app.keyboard.press('j');
  await expect.poll(() => selectedId(app)).not.toBe(first);
  await app.keyboard.press('k');
  await expect.poll(() => selectedId(app)).toBe(first);

  await app.keyboard.press('Control+]');
  await expect(app.getByRole('region', { name: 'Request detail' })).toBeFocused();
  await app.keyboard.press('Control+[');
  await expect(list(app)).toBeFocused();
  await app.keyboard.press('End');
  await expect.poll(() => selectedId(app)).not.toBe(first);
  await app.keyboard.press('Home');
  await expect(selected(app)).toHaveCount(1);

  await app.keyboard.press('/');
  await expect(app.getByLabel('Filter', { exact: true })).toBeFocused();
  await app.keyboard.type('jk');
  await expect(app.getByLabel('Filter', { exact: true })).toHaveValue('jk');
  await app.getByLabel('Filter', { exact: true }).fill('');
  await app.keyboard.press('Enter');
  await expect(list(app)).toBeFocused();
  await app.keyboard.press('Escape');
  await expect(selected(app)).toHaveCount(0);
});

test('a link leads another page to the same request', async ({ app, context }) => {
  await rows(app).nth(1).click();
  const id = await selectedId(app);
  const other = await context.newPage();
  await other.goto(app.url());
  await expect(other.getByRole('region', { name: 'Request detail' })).toBeVisible();
  expect(new URL(other.url()).hash).toContain(encodeURIComponent(id));
  await other.close();
});

test('leaving with a row selected shows the next view, not a blank page', async ({ app }) => {
  await rows(app).nth(2).click();
  await expect(app.getByRole('tab', { name: 'Waterfall' })).toBeVisible();
  await app.getByRole('link', { name: /^KV events/ }).click();
  await expect(app.getByRole('heading', { level: 1, name: 'KV events' })).toBeVisible();
  await app.getByRole('link', { name: /^Instances/ }).click();
  await expect(app.getByRole('heading', { level: 1, name: 'Instances' })).toBeVisible();
});
