/** Build of the headless command line: one ESM entry for Node 20, dependencies left in node_modules. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { defineConfig } from 'vite';

const root = import.meta.dirname;
const entry = resolve(root, 'electron/headless/cli.ts');
const { version } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as { readonly version: string };

export default defineConfig({
  root,
  publicDir: false,
  define: { __PDSCOPE_VERSION__: JSON.stringify(version) },
  build: {
    ssr: true,
    target: 'node20.19',
    outDir: resolve(root, process.env['PDSCOPE_OUT_DIR'] ?? 'out', 'headless'),
    emptyOutDir: true,
    sourcemap: true,
    minify: false,
    reportCompressedSize: false,
    rolldownOptions: {
      input: { cli: entry },
      output: {
        format: 'es',
        entryFileNames: '[name].js',
        chunkFileNames: 'chunks/[name]-[hash].js',
        // Rolldown keeps a hashbang that the source has; a second one would be a syntax error.
        banner: (chunk) => (chunk.isEntry && !readFileSync(entry, 'utf8').startsWith('#!') ? '#!/usr/bin/env node' : ''),
      },
    },
  },
});
