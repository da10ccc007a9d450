/**
 * Build of the desktop app: main process (ESM), preload (one CommonJS file, as a sandboxed preload must be) and the
 * renderer, which the headless host serves as well. The headless command line has its own config beside this one.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'electron-vite';

const root = import.meta.dirname;
const { version } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as { readonly version: string };
const define = { __PDSCOPE_VERSION__: JSON.stringify(version) };
/** `npm run dev` builds beside the real output, so that `npm start` never sees a development build as current. */
const out = resolve(root, process.env['PDSCOPE_OUT_DIR'] ?? 'out');

export default defineConfig({
  main: {
    define,
    build: {
      outDir: resolve(out, 'main'),
      sourcemap: true,
      rolldownOptions: { input: { index: resolve(root, 'electron/main/index.ts') } },
    },
  },
  preload: {
    define,
    build: {
      outDir: resolve(out, 'preload'),
      sourcemap: true,
      // A sandboxed preload can require nothing but electron's own subset: everything else goes into the file.
      externalizeDeps: false,
      rolldownOptions: {
        input: { index: resolve(root, 'electron/preload/index.ts') },
        output: { format: 'cjs', entryFileNames: '[name].cjs' },
      },
    },
  },
  renderer: {
    root: resolve(root, 'renderer'),
    base: './',
    define,
    plugins: [react()],
    // Both hosts put a fresh nonce in its place with every response.
    html: { cspNonce: 'PDSCOPE_NONCE' },
    server: { host: '127.0.0.1' },
    build: {
      outDir: resolve(out, 'renderer'),
      emptyOutDir: true,
      sourcemap: true,
      manifest: true,
      // Not Electron's Chromium only: the headless host serves the same files to any current browser.
      target: 'es2023',
      minify: 'oxc',
      rolldownOptions: { input: { index: resolve(root, 'renderer/index.html') } },
    },
  },
});
