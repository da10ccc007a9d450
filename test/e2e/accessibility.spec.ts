/**
 * axe over everything that a person can open, in both themes: each view, each tab of a detail, each section of the
 * cache, and what lies over the page. With data, not the first empty moment: most of what is read is in rows and figures.
 */
import type { Locator, Page } from '@playwright/test';
import { VIEWS, type ViewId } from '#shared/views.ts';
import { expect, expectAccessible, openView, takePicture, test, THEMES, useTheme, type Theme } from './support/fixtures.ts';
import { LiveList, WHOLE_REQUEST } from './support/live-list.ts';

/** What a view shows once it has data. */
const WITH_DATA: Readonly<Record<ViewId, (page: Page) => Locator>> = {
  overview: (page) => page.getByRole('region', { name: 'Instances' }).getByRole('row').nth(1),
  requests: (page) => new LiveList(page, 'requests').rows.nth(5),
  'kv-events': (page) => new LiveList(page, 'kv-events').rows.nth(5),
  cache: (page) => page.getByRole('list', { name: 'Lines' }),
  instances: (page) => page.getByRole('table', { name: 'Instances' }).getByRole('row').nth(1),
  findings: (page) => page.getByTestId('finding-counters'),
};

async function look(page: Page, name: string, theme: Theme, within?: string): Promise<void> {
  await takePicture(page, `${name}-${theme}`);
  await expectAccessible(page, within);
}

/** Opens each tab that can be opened, one after the other. axe looks at what the tabs change: `within`, a CSS selector. */
async function lookAtTabs(page: Page, name: string, theme: Theme, within: string): Promise<void> {
  const tabs = page.getByRole('tab').and(page.locator(':enabled'));
  const count = await tabs.count();
  expect(count).toBeGreaterThan(1);
  for (let index = 0; index < count; index += 1) {
    await tabs.nth(index).click();
    await expect(page.getByText(/^(Asking|Comparing)/)).toHaveCount(0);
    await look(page, `${name}-${await tabs.nth(index).innerText()}`.toLowerCase().replaceAll(/\W+/g, '-'), theme, within);
  }
}

for (const theme of THEMES) {
  test.describe(`in the ${theme} theme there is no accessibility violation`, () => {
    test.beforeEach(async ({ app }) => {
      await useTheme(app, theme);
    });

    for (const view of VIEWS) {
      test(`in ${view}`, async ({ app }) => {
        await openView(app, view);
        await expect(app.getByRole('contentinfo', { name: 'Status' })).toContainText('req/s');
        await expect(WITH_DATA[view](app)).toBeVisible();
        await look(app, view, theme);
      });
    }

    test('in the sections of the cache, and in a block', async ({ app }) => {
      test.slow();
      await openView(app, 'cache');
      await lookAtTabs(app, 'cache', theme, 'main');
      await app.getByRole('tab', { name: 'Prefix tree' }).click();
      // A line of the tree, not the note that stands there until it came.
      await expect(app.getByRole('treeitem').and(app.locator('[data-node]')).first()).toBeVisible();
      await app.getByRole('tree', { name: 'Prefix tree' }).focus();
      await app.keyboard.press('Enter');
      await expect(app.getByRole('region', { name: 'Block detail' }).getByRole('heading', { name: /of its prompt/ })).toBeVisible();
      await look(app, 'cache-block', theme, '[aria-label="Block detail"]');
    });

    test('in a request', async ({ app }) => {
      test.slow();
      await openView(app, 'requests');
      const list = new LiveList(app, 'requests');
      await list.filterBy(WHOLE_REQUEST);
      await list.select();
      await lookAtTabs(app, 'request', theme, '[aria-label="Request detail"]');
    });

    test('in a KV event', async ({ app }) => {
      test.slow();
      await openView(app, 'kv-events');
      const list = new LiveList(app, 'kv-events');
      await list.filterBy('type:stored');
      await list.select();
      await lookAtTabs(app, 'kv-event', theme, '[aria-label="Event and resident blocks"]');
    });

    test('while a filter is wrong, and while a list is paused', async ({ app }) => {
      await openView(app, 'kv-events');
      await app.getByLabel('Filter', { exact: true }).fill('type:nothing');
      await expect(app.getByText(/type is one of stored/)).toBeVisible();
      await new LiveList(app, 'kv-events').pause();
      await look(app, 'kv-events-wrong-and-paused', theme);
    });

    test('in an instance, and in the form for a new one', async ({ app }) => {
      await app.goto('/#/instances?sel=p0');
      await expect(app.getByRole('region', { name: 'Instance P0' })).toBeVisible();
      await look(app, 'instance', theme);
      await app.goto('/#/instances?sel=new');
      await expect(app.getByRole('region', { name: 'Add instance' })).toBeVisible();
      await look(app, 'instance-new', theme);
    });

    test('in the palette and in the list of keys', async ({ app }) => {
      await app.keyboard.press('Control+k');
      await expect(app.getByRole('dialog')).toBeVisible();
      await look(app, 'palette', theme);
      await app.keyboard.press('Escape');
      await expect(app.getByRole('dialog')).toHaveCount(0);
      await app.keyboard.press('?');
      await expect(app.getByRole('dialog', { name: 'Keyboard' })).toBeVisible();
      await look(app, 'keys', theme);
    });
  });
}
