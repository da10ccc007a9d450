import { VIEWS } from '#shared/views.ts';
import { expect, expectConnected, expectView, openView, test } from './support/fixtures.ts';
import { startHeadlessHost } from './support/headless-host.ts';

test('number keys switch views, and not while typing', async ({ app }) => {
  for (const [index, view] of VIEWS.entries()) {
    await app.keyboard.press(String(index + 1));
    await expectView(app, view);
  }
  await app.keyboard.press('5');
  await app.getByRole('button', { name: 'Add instance' }).click();
  await app.getByLabel('Name').pressSequentially('1');
  await expect(app.getByRole('heading', { name: 'Instances', level: 1 })).toBeVisible();
  await expect(app.getByLabel('Name')).toHaveValue('1');
});

test('the palette finds a command and runs it', async ({ app, host }) => {
  await app.keyboard.press('Control+k');
  await app.getByRole('dialog').getByRole('textbox').fill('round-robin');
  await app.keyboard.press('Enter');
  await expect.poll(async () => (await host.call('state.get', {})).policy).toBe('round-robin');
  await expect(app.getByRole('contentinfo', { name: 'Status' })).toContainText('round-robin');
  await host.call('policy.set', { policy: 'least-in-flight' });
});

test('? lists every shortcut', async ({ app }) => {
  await app.keyboard.press('Shift+?');
  const sheet = app.getByRole('dialog');
  await expect(sheet).toContainText('Command palette');
  await app.keyboard.press('Escape');
  await expect(sheet).toHaveCount(0);
});

test('the theme follows the system until a person chooses', async ({ app }) => {
  const html = app.locator('html');
  await app.emulateMedia({ colorScheme: 'light' });
  await expect(html).toHaveAttribute('data-mantine-color-scheme', 'light');
  await app.emulateMedia({ colorScheme: 'dark' });
  await expect(html).toHaveAttribute('data-mantine-color-scheme', 'dark');
  await app.getByRole('button', { name: 'theme: system' }).click();
  await expect(html).toHaveAttribute('data-mantine-color-scheme', 'light');
  await app.reload();
  await expect(html).toHaveAttribute('data-mantine-color-scheme', 'light');
});

test('is usable at 1280 pixels: nothing makes the page scroll sideways', async ({ app }) => {
  await app.setViewportSize({ width: 1280, height: 720 });
  for (const view of VIEWS) {
    await openView(app, view);
    const overflow = await app.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow, view).toBe(0);
  }
});

test('a lost engine is said at once, and what was known stays on screen', async ({ page }) => {
  await using host = await startHeadlessHost();
  await page.goto(host.loginUrl);
  await expectConnected(page);
  // Looked at once, so that their code is there when nobody serves it any more.
  for (const key of ['3', '6']) {
    await page.keyboard.press(key);
    await expect(page.locator('main h1')).toHaveText(key === '3' ? 'KV events' : 'Findings');
  }
  await page.goto(`${host.url}/#/instances`);
  await expect(page.getByRole('table', { name: 'Instances' })).toContainText('P0');
  await host[Symbol.asyncDispose]();
  await expect(page.getByRole('alert')).toContainText('Not connected to the engine');
  await expect(page.getByRole('alert').getByRole('button', { name: 'Try now' })).toBeVisible();
  await expect(page.getByRole('table', { name: 'Instances' })).toContainText('P0');
  // A list that is opened now says so too, instead of that it loads.
  for (const key of ['3', '6']) {
    await page.keyboard.press(key);
    await expect(page.getByRole('heading', { name: 'Not connected', exact: true })).toBeVisible();
  }
});
