/** Browser tests of the built page against the headless host, and tests of the desktop app where Electron can run. */
import { defineConfig } from '@playwright/test';
import { findChromium } from './scripts/lib/chromium.mjs';

const executablePath = findChromium();

export default defineConfig({
  outputDir: 'test-results/playwright',
  // Each worker runs a whole demo cluster beside its browser: more of them starve each other on two cores.
  workers: 1,
  fullyParallel: false,
  forbidOnly: process.env['CI'] !== undefined,
  // A real browser on machines that others use too. `npm test` names what needed a second try.
  retries: 1,
  // Limits for what never happens, not for what is slow: machines differ, and time is never what a test judges.
  timeout: 240_000,
  expect: { timeout: 45_000 },
  reporter: 'list',
  projects: [
    {
      name: 'e2e',
      testDir: 'test/e2e',
      use: {
        browserName: 'chromium',
        viewport: { width: 1440, height: 900 },
        // A trace snapshots the document at every step, which on live tables costs more than the tests themselves.
        trace: 'off',
        screenshot: 'only-on-failure',
        launchOptions: {
          ...(executablePath !== undefined && { executablePath }),
          args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
        },
      },
    },
    { name: 'desktop', testDir: 'test/desktop-e2e' },
  ],
});
