/**
 * Test fixtures: one host for all tests of a worker, one signed-in page for each test. A page that breaks its content
 * security policy, throws, or logs an error fails its test, whatever the test looked at.
 */
import { AxeBuilder } from '@axe-core/playwright';
import { expect, test as base, type Page } from '@playwright/test';
import { VIEW_TITLES, type ViewId } from '#shared/views.ts';
import { startHeadlessHost, type HeadlessHost } from './headless-host.ts';

export const THEMES = ['dark', 'light'] as const;
export type Theme = (typeof THEMES)[number];

interface Fixtures {
  /** Signed in, connected, on the overview. */
  readonly app: Page;
}

interface WorkerFixtures {
  readonly host: HeadlessHost;
}

export const test = base.extend<Fixtures, WorkerFixtures>({
  host: [
    async ({ browserName: _browser }, use) => {
      await using host = await startHeadlessHost();
      await use(host);
    },
    { scope: 'worker', timeout: 180_000 },
  ],
  // The port is the system's choice, so the base URL is known once the host runs.
  baseURL: async ({ host }, use) => {
    await use(host.url);
  },
  app: async ({ page, host }, use) => {
    const problems: string[] = [];
    page.on('pageerror', (error) => problems.push(`thrown: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(`logged: ${message.text()} (${message.location().url})`);
    });
    await page.goto(host.loginUrl);
    await expectConnected(page);
    await use(page);
    expect(problems, 'errors in the page').toEqual([]);
  },
});

export { expect };

export async function expectConnected(page: Page): Promise<void> {
  await expect(page.getByText('engine connected')).toBeVisible();
}

/** Goes to a view by its address. Resolves when it stands there itself, not the view before it. */
export async function openView(page: Page, view: ViewId): Promise<void> {
  await page.goto(`/#/${view}`);
  await expectView(page, view);
}

export async function expectView(page: Page, view: ViewId): Promise<void> {
  await expect(page.locator('main h1')).toHaveText(VIEW_TITLES[view]);
}

export async function useTheme(page: Page, theme: Theme): Promise<void> {
  await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
  await expect(page.locator('html')).toHaveAttribute('data-mantine-color-scheme', theme);
}

/**
 * No violation of WCAG 2 A/AA and of axe's best practices, in the whole page or `within` a CSS selector. Each violation is
 * named with the first elements it is about.
 */
export async function expectAccessible(page: Page, within?: string): Promise<void> {
  const axe = new AxeBuilder({ page });
  const { violations } = await (within === undefined ? axe : axe.include(within)).analyze();
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join('\n  ')}`);
  expect(found).toEqual([]);
}

/** A picture of the page for a person to look at, under test-results/screenshots. */
export async function takePicture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: `test-results/screenshots/${name}.png` });
}
