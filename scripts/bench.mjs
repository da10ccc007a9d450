// Builds the benchmark (test/bench) into out/bench and runs it. Arguments pass through: npm run bench -- --help
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { readFileSync } from 'node:fs';
import { findChromium } from './lib/chromium.mjs';
import { ensureBuilt } from './lib/ensure-built.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const { build } = await import('vite');
const { dependencies } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const args = process.argv.slice(2);
const isAsked = (name) => !args.includes('--help') && (!args.some((arg) => arg.startsWith('--only')) || args.some((arg) => arg.split(/[=,]/).includes(name)));

// These parts look at the built product.
if (isAsked('page') || isAsked('subscriber')) await ensureBuilt();
await build({
  root,
  configFile: false,
  logLevel: 'warn',
  define: { __PDSCOPE_VERSION__: JSON.stringify('bench') },
  build: {
    ssr: true,
    target: 'node20',
    outDir: 'out/bench',
    emptyOutDir: true,
    minify: false,
    rollupOptions: {
      input: ['bench', 'proxy-process', 'kv-publisher-process', 'relay-process', 'cluster-process', 'index-process'].map((name) => `test/bench/${name}.ts`),
      external: [...Object.keys(dependencies), '@playwright/test', /^node:/],
      output: { entryFileNames: '[name].js', format: 'es' },
    },
  },
});

const { status, signal } = spawnSync(process.execPath, ['out/bench/bench.js', ...args], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, CHROMIUM_PATH: findChromium() ?? '' },
});
process.exitCode = signal ? 1 : (status ?? 1);
