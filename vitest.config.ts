import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: [
      // Property tests take seconds on a busy machine; time is never what a test judges.
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], environment: 'node', testTimeout: 30_000 } },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          environment: 'node',
          testTimeout: 30_000,
          hookTimeout: 30_000,
          pool: 'forks',
        },
      },
      { test: { name: 'renderer', include: ['test/renderer/**/*.test.{ts,tsx}'], environment: 'happy-dom', testTimeout: 30_000 } },
    ],
  },
});
