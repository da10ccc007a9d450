import { randomUUID } from 'node:crypto';
import type { Locator, Page } from '@playwright/test';
import { chat } from './support/client.ts';
import { expect, expectAccessible, openView, takePicture, test, THEMES, useTheme } from './support/fixtures.ts';
import { expectInAddress, LiveList } from './support/live-list.ts';

/** A name that no other request of the host has: findings and requests of earlier tests stay. */
const newId = (what: string): string => `e2e-${what}-${randomUUID().slice(0, 8)}`;

/** What pdscope says to a client that brings transfer parameters of its own. */
const TITLE = /client's own kv_transfer_params/;
const PARAMS = { kv_transfer_params: { do_remote_decode: false, do_remote_prefill: true, remote_engine_id: 'brought-along' } };

const list = (page: Page): Locator => page.getByRole('table', { name: 'Findings', exact: true });
const detail = (page: Page): Locator => page.getByRole('region', { name: 'Finding', exact: true });

async function filterBy(page: Page, filter: string): Promise<void> {
  await page.getByLabel('Filter', { exact: true }).fill(filter);
  await page.keyboard.press('Enter');
  await expectInAddress(page, 'q', filter);
}

test('a finding made by a real request is listed with its next step, and leads to that request', async ({ app, host }) => {
  const id = newId('brought-params');
  const { status } = await chat(host, id, PARAMS);
  expect(status).toBe(200);
  await openView(app, 'findings');
  await filterBy(app, id);
  const row = list(app).getByRole('row').filter({ hasText: TITLE });
  // One request makes a finding at one place.
  await expect(row).toHaveCount(1);
  await row.getByRole('button').click();

  await expect(detail(app)).toContainText('Next step');
  const evidence = detail(app).getByRole('row').filter({ has: app.getByTitle(`Open ${id}`) });
  await expect(evidence).toContainText('brought-along');
  await expect(evidence).toContainText('client->proxy');
  await evidence.getByRole('link').click();

  const request = app.getByRole('region', { name: 'Request detail' });
  await expect(request).toContainText(id);
  await expect(request.getByRole('list', { name: 'Findings on this request' })).toContainText(TITLE);
  await request.getByRole('tab', { name: /^Hops/ }).click();
  await expect(request.getByRole('list', { name: 'Findings on what the client sent' })).toContainText(TITLE);
});

test('requests can be asked for by their findings', async ({ app, host }) => {
  const id = newId('asked-for');
  await chat(host, id, PARAMS);
  await openView(app, 'requests');
  const list = new LiveList(app, 'requests');
  await list.filterBy(`findings>0 id:${id}`);
  await expect(list.rows).toHaveCount(1);
  await expect(list.rows.first().getByTitle(/^\d+ findings?, worst: /)).toBeVisible();
});

test('a dismissed diagnosis is gone until it is brought back, and counts how often it is seen meanwhile', async ({ app, host }) => {
  await chat(host, newId('dismissed'), PARAMS);
  await openView(app, 'findings');
  await filterBy(app, 'code:client_params_replaced');
  // One line, whatever the number of instances that served such requests.
  const rows = list(app).getByRole('row').filter({ hasText: TITLE });
  await expect(rows).toHaveCount(1);
  await rows.first().getByRole('button', { name: TITLE }).last().click();
  await detail(app).getByRole('button', { name: /^Dismiss/ }).click();
  await expect(rows).toHaveCount(0);

  await app.getByText('dismissed', { exact: true }).first().click();
  await expect(rows.filter({ hasText: 'dismissed' })).toHaveCount(1);
  await detail(app).getByRole('button', { name: /^Bring back/ }).click();
  await expect(rows).toHaveCount(0);
  await app.getByText('open', { exact: true }).first().click();
  await expect(rows).toHaveCount(1);

  // What lasts is seen again with every request: a dismissal that ended there would be of no use.
  await app.keyboard.press('d');
  await expect(rows).toHaveCount(0);
  const { findings } = await host.call('findings.list', { all: true });
  const known = findings.filter(({ code }) => code === 'client_params_replaced').map(({ id }) => id);
  await app.getByText('dismissed', { exact: true }).first().click();
  await expect(rows.filter({ hasText: 'dismissed' })).toHaveCount(1);
  // Where an instance had no such request yet, the diagnosis is a new one there: asked until one that had is chosen.
  await expect.poll(async () => {
    await chat(host, newId('dismissed-again'), PARAMS);
    const page = await host.call('findings.list', { all: true });
    return page.findings.some(({ id, dismissal }) => known.includes(id) && (dismissal?.seenAgain ?? 0) > 0);
  }).toBe(true);
  await expect(rows).toHaveCount(1);
  await expect(rows).toContainText(/dismissed, seen again (once|\d+ times)/);
  // Left open for the tests after this one.
  for (const id of known) await host.call('findings.restore', { id });
});

test('a diagnosis leaves no accessibility violation: open, with its places, and dismissed', async ({ app, host }) => {
  const openPlaces = async (): Promise<number> => (await host.call('findings.list', {})).findings.filter(({ code, isDismissed }) => code === 'client_params_replaced' && !isDismissed).length;
  // Which instance serves a request is the policy's choice: until two have served such a one.
  while ((await openPlaces()) < 2) await chat(host, newId('axe'), PARAMS);
  for (const theme of THEMES) {
    await useTheme(app, theme);
    await openView(app, 'findings');
    await filterBy(app, 'code:client_params_replaced');
    const fold = list(app).getByRole('button', { expanded: false });
    await fold.click();
    await list(app).getByRole('button', { name: TITLE }).last().click();
    await expect(detail(app)).toBeVisible();
    await takePicture(app, `finding-places-${theme}`);
    await expectAccessible(app);
    await app.keyboard.press('d');
    await expect(detail(app).getByRole('button', { name: /^Bring back/ })).toBeVisible();
    await takePicture(app, `finding-dismissed-${theme}`);
    await expectAccessible(app);
    await app.keyboard.press('d');
    await expect(detail(app).getByRole('button', { name: /^Dismiss/ })).toBeVisible();
    await list(app).getByRole('button', { expanded: true }).click();
  }
});

test('the keyboard walks through findings', async ({ app, host }) => {
  await chat(host, newId('keys'), PARAMS);
  await openView(app, 'findings');
  await expect(list(app)).toBeVisible();
  await app.keyboard.press('j');
  await expect(detail(app)).toBeVisible();
  await app.keyboard.press('Control+]');
  await expect(detail(app)).toBeFocused();
  await app.keyboard.press('Escape');
  await expect(detail(app)).toHaveCount(0);
});
