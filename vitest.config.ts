import { defineConfig } from 'vitest/config';

/** Above what tests wait for a state (test/support/wait-limit.ts); for what never ends, time is never what a test judges. */
const TEST_TIMEOUT_MS = 180_000;

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], environment: 'node', testTimeout: TEST_TIMEOUT_MS, hookTimeout: TEST_TIMEOUT_MS } },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          environment: 'node',
          testTimeout: TEST_TIMEOUT_MS,
          hookTimeout: TEST_TIMEOUT_MS,
          pool: 'forks',
          // Real sockets and processes on machines that others use too. `npm test` names what needed a second try.
          retry: 1,
        },
      },
      { test: { name: 'renderer', include: ['test/renderer/**/*.test.{ts,tsx}'], environment: 'happy-dom', testTimeout: TEST_TIMEOUT_MS, hookTimeout: TEST_TIMEOUT_MS } },
    ],
  },
});
