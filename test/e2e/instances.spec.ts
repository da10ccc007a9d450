import { startCommand } from './support/command.ts';
import { expect, openView, test } from './support/fixtures.ts';

/** `pdscope sim` prints its address. */
const SIM_URL = /simulated \w+ instance of \S+ at (http:\S+)/;

test('an instance is added and drained from the page while traffic runs, and no request fails', async ({ app, host }) => {
  await using sim = await startCommand(['sim', '--role', 'prefill', '--kv-events-port', '0'], SIM_URL);
  const before = (await host.call('state.get', {})).totals;

  await openView(app, 'instances');
  await app.getByRole('button', { name: 'Add instance' }).click();
  await app.getByLabel('Role').selectOption('prefill');
  await app.getByLabel('Address').fill(sim.printed);
  await app.getByLabel('Name').fill('extra');
  await app.getByRole('button', { name: 'Add', exact: true }).click();

  const list = app.getByRole('table', { name: 'Instances' });
  const row = list.getByRole('row').filter({ hasText: 'extra' });
  await expect(row).toContainText('up');
  await expect(app.getByRole('region', { name: 'Instance extra' })).toBeVisible();
  // It takes its share of the demo's traffic.
  await expect
    .poll(async () => (await host.call('state.get', {})).instances.find(({ name }) => name === 'extra')?.served ?? 0)
    .toBeGreaterThan(2);

  await app.getByRole('button', { name: 'Drain, then remove' }).click();
  await expect(row).toHaveCount(0);
  await expect(app.getByText('No longer in the fleet')).toBeVisible();

  const after = (await host.call('state.get', {})).totals;
  expect(after.ok).toBeGreaterThan(before.ok);
  expect({ error: after.error, retries: after.retries }).toEqual({ error: before.error, retries: before.retries });
});

test('an address that nobody answers is refused in words, and nothing joins', async ({ app, host }) => {
  const count = (await host.call('state.get', {})).instances.length;
  await openView(app, 'instances');
  await app.getByRole('button', { name: 'Add instance' }).click();
  await app.getByLabel('Address').fill('127.0.0.1:9');
  await app.getByRole('button', { name: 'Add', exact: true }).click();
  await expect(app.getByRole('region', { name: 'Add instance' })).toContainText(/127\.0\.0\.1:9/);
  await expect(app.getByLabel('Address')).toHaveAttribute('aria-invalid', 'true');
  expect((await host.call('state.get', {})).instances).toHaveLength(count);
});

test('removing asks once, starts on the harmless answer, and Esc takes it back', async ({ app }) => {
  await openView(app, 'instances');
  await app.getByRole('table', { name: 'Instances' }).getByRole('button', { name: 'P0', exact: true }).click();
  await app.getByRole('button', { name: 'Remove …' }).click();
  const question = app.getByRole('alertdialog');
  await expect(question).toBeVisible();
  await expect(question.getByRole('button', { name: 'Cancel', exact: true })).toBeFocused();
  await app.keyboard.press('Escape');
  await expect(question).toHaveCount(0);
  await expect(app.getByRole('region', { name: 'Instance P0' })).toBeVisible();
});

test('disable keeps an instance out, enable brings it back', async ({ app, host }) => {
  await openView(app, 'instances');
  const row = app.getByRole('table', { name: 'Instances' }).getByRole('row').filter({ hasText: 'D0' });
  await row.getByRole('button', { name: 'D0', exact: true }).click();
  const detail = app.getByRole('region', { name: 'Instance D0' });
  await detail.getByRole('button', { name: 'Disable', exact: true }).click();
  await expect(row).toContainText('disabled');
  expect((await host.call('state.get', {})).instances.find(({ name }) => name === 'D0')?.state).toBe('disabled');
  await detail.getByRole('button', { name: 'Enable', exact: true }).click();
  await expect(row).toContainText('up');
});
