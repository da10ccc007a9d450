/**
 * Build of the desktop app: main process (ESM), preload (one CommonJS file, as a sandboxed preload must be) and the
 * page. The headless command line has its own config beside this one.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { defineConfig } from 'electron-vite';
import renderer from './vite.renderer.config.ts';

const root = import.meta.dirname;
const { version } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as { readonly version: string };
const define = { __PDSCOPE_VERSION__: JSON.stringify(version) };
/** `npm run dev` builds beside the real output, so that `npm start` never takes a development build for a current one. */
const out = resolve(root, process.env['PDSCOPE_OUT_DIR'] ?? 'out');

export default defineConfig({
  main: {
    define,
    build: {
      outDir: resolve(out, 'main'),
      emptyOutDir: true,
      sourcemap: true,
      rolldownOptions: { input: { index: resolve(root, 'electron/main/index.ts') } },
    },
  },
  preload: {
    define,
    build: {
      outDir: resolve(out, 'preload'),
      emptyOutDir: true,
      sourcemap: true,
      // A sandboxed preload can require nothing but electron's own subset: everything else goes into the file.
      externalizeDeps: false,
      rolldownOptions: {
        input: { index: resolve(root, 'electron/preload/index.ts') },
        output: { format: 'cjs', entryFileNames: '[name].cjs' },
      },
    },
  },
  renderer,
});
