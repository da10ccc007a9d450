/**
 * The desktop app itself, driven by Playwright. Needs Electron's binary and a display; without them every test here is
 * skipped with the reason, and `npm test` says so in a line of its own.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { _electron, expect, test, type ElectronApplication, type Page } from '@playwright/test';
import { findElectron } from '../../scripts/lib/electron.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const electron = findElectron();

test.skip(electron.path === undefined, `Electron cannot run here: ${electron.reason ?? ''}`);
test.describe.configure({ mode: 'serial' });

let userData: string;
let app: ElectronApplication;
let window: Page;

const launch = (): Promise<ElectronApplication> =>
  _electron.launch({
    ...(electron.path !== undefined && { executablePath: electron.path }),
    args: [ROOT, `--user-data-dir=${userData}`, '--', 'serve', '--demo', '--port', '0'],
    timeout: 30_000,
  });

test.beforeAll(async () => {
  userData = mkdtempSync(join(tmpdir(), 'pdscope-desktop-'));
  app = await launch();
  window = await app.firstWindow();
});

test.afterAll(async () => {
  await app.close();
  rmSync(userData, { recursive: true, force: true });
});

test('opens the page from app:// and connects it to the engine in the main process', async () => {
  expect(window.url()).toMatch(/^app:\/\/pdscope\//);
  await expect(window.getByText('engine connected')).toBeVisible();
  await expect(window.getByText('Simulated cluster')).toBeVisible();
});

test('gives the page nothing of Node or Electron', async () => {
  const seen = await window.evaluate(() => ({
    require: typeof (globalThis as Record<string, unknown>)['require'],
    process: typeof (globalThis as Record<string, unknown>)['process'],
    pdscope: Object.keys((globalThis as unknown as { pdscope: object }).pdscope).sort(),
  }));
  expect(seen).toEqual({ require: 'undefined', process: 'undefined', pdscope: ['host', 'platform'] });
});

test('runs sandboxed and isolated', async () => {
  const preferences = await app.evaluate(({ BrowserWindow }) => {
    const contents = BrowserWindow.getAllWindows()[0]?.webContents as unknown as { getLastWebPreferences(): Record<string, unknown> };
    const { sandbox, contextIsolation, nodeIntegration, webSecurity } = contents.getLastWebPreferences();
    return { sandbox, contextIsolation, nodeIntegration, webSecurity };
  });
  expect(preferences).toEqual({ sandbox: true, contextIsolation: true, nodeIntegration: false, webSecurity: true });
});

test('cannot be led away, and opens no second window', async () => {
  await window.evaluate(() => {
    globalThis.open('https://example.invalid/');
    globalThis.location.href = 'https://example.invalid/';
  });
  await expect(window.getByText('engine connected')).toBeVisible();
  expect(window.url()).toMatch(/^app:\/\/pdscope\//);
  expect(app.windows()).toHaveLength(1);
});

test('denies what a page could ask for', async () => {
  const state = await window.evaluate(async () => (await navigator.permissions.query({ name: 'geolocation' })).state);
  expect(state).toBe('denied');
});

test('shows live requests', async () => {
  await window.evaluate(() => {
    globalThis.location.hash = '#/requests';
  });
  await expect(window.getByRole('row').nth(3)).toBeVisible();
});

test('is there once: a second start leaves, and the first stays', async () => {
  const second = await launch().catch(() => undefined);
  await second?.close();
  await expect(window.getByText('engine connected')).toBeVisible();
});
