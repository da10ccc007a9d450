import type { Locator, Page } from '@playwright/test';
import { expect, expectAccessible, openView, takePicture, test, THEMES, useTheme } from './support/fixtures.ts';

const panel = (page: Page): Locator => page.getByRole('region', { name: 'Connector in force' });

// The host serves the tests after these as well.
test.afterEach(async ({ host }) => {
  await host.call('connector.set', { connector: 'nixl' });
  await host.call('protocol.set', { blockFatal: true, reemitStreams: false, encodeStage: 'auto' });
});

test('the connector is switched while traffic runs, and shows what it keeps', async ({ app, host }) => {
  await openView(app, 'instances');
  await expect(panel(app)).toContainText('Connector nixl');
  await app.getByLabel('Connector', { exact: true }).selectOption('nixl-bidirectional');
  await expect(panel(app).getByRole('heading', { level: 2, name: 'Connector nixl-bidirectional' })).toBeVisible();
  expect((await host.call('state.get', {})).connector).toBe('nixl-bidirectional');

  const conversations = panel(app).getByRole('region', { name: 'Conversations', exact: true });
  await expect(conversations.getByTestId('status-totals')).toContainText('of at most 10,000');
  // Demo traffic talks in conversations.
  await expect(conversations.getByRole('row').nth(1)).toBeVisible();
  await conversations.getByRole('link').first().click();
  await expect(app.getByRole('region', { name: /^Instance D/ })).toBeVisible();
  await app.keyboard.press('Escape');
  await expect(panel(app)).toBeVisible();
  for (const theme of THEMES) {
    await useTheme(app, theme);
    await takePicture(app, `connector-${theme}`);
    await expectAccessible(app);
  }
});

test('every connector says what engines need, and can be chosen in the panel', async ({ app, host }) => {
  await openView(app, 'instances');
  const mode = panel(app).locator('details').filter({ hasText: 'Prefill pushes; decode finds it by engine id' });
  await mode.locator('summary').click();
  await expect(mode).toContainText('"kv_connector":"MooncakeConnector"');
  await mode.getByRole('button', { name: 'Use mooncake' }).click();
  await expect(panel(app).getByRole('heading', { level: 2, name: 'Connector mooncake' })).toBeVisible();
  await expect.poll(async () => (await host.call('state.get', {})).connector).toBe('mooncake');
  await expect(panel(app).getByTestId('connector-status').getByRole('table').first()).toBeVisible();
});

test('protocol settings take effect at once and survive a reload', async ({ app, host }) => {
  await openView(app, 'instances');
  const hold = panel(app).getByLabel('Hold back legs that would kill or hang an engine');
  await expect(hold).toBeChecked();
  await hold.uncheck();
  await expect.poll(async () => (await host.call('state.get', {})).protocol.blockFatal).toBe(false);
  await panel(app).getByLabel('Run decode without stream and re-emit it as one').check();
  await panel(app).getByLabel('Encode stage').selectOption('off');
  await expect.poll(async () => (await host.call('state.get', {})).protocol).toEqual({ blockFatal: false, reemitStreams: true, encodeStage: 'off' });
  await app.reload();
  await expect(panel(app).getByLabel('Hold back legs that would kill or hang an engine')).not.toBeChecked();
  await expect(panel(app).getByLabel('Run decode without stream and re-emit it as one')).toBeChecked();
  await expect(panel(app).getByLabel('Encode stage')).toHaveValue('off');
});

test('the profiler is asked on every instance, and each answer is shown', async ({ app, host }) => {
  const { instances } = await host.call('state.get', {});
  await openView(app, 'instances');
  await panel(app).getByRole('button', { name: 'Start on all' }).click();
  const answers = panel(app).getByRole('list', { name: 'Answers to start profile' });
  await expect(answers.getByRole('listitem')).toHaveCount(instances.length);
  for (const { name } of instances) await expect(answers).toContainText(name);
  await panel(app).getByRole('button', { name: 'Stop on all' }).click();
  await expect(panel(app).getByRole('list', { name: 'Answers to stop profile' }).getByRole('listitem')).toHaveCount(instances.length);
});
