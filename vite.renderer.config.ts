/** Build and dev server of the page. Both hosts serve the same files, so nothing here knows which one it will be. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const root = import.meta.dirname;
const { version } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as { readonly version: string };
/** Both hosts put a fresh nonce in its place with every response; the dev server leaves it as it is. */
const NONCE = 'PDSCOPE_NONCE';

export default defineConfig({
  root: resolve(root, 'renderer'),
  base: './',
  define: { __PDSCOPE_VERSION__: JSON.stringify(version) },
  plugins: [react()],
  html: { cspNonce: NONCE },
  server: {
    host: '127.0.0.1',
    headers: {
      // The hosts' policy plus what hot reloading needs: its inline preamble and its socket.
      'content-security-policy': [
        "default-src 'none'",
        `script-src 'self' 'nonce-${NONCE}'`,
        `style-src 'self' 'nonce-${NONCE}'`,
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self' ws:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "object-src 'none'",
      ].join('; '),
    },
  },
  build: {
    outDir: resolve(root, process.env['PDSCOPE_OUT_DIR'] ?? 'out', 'renderer'),
    emptyOutDir: true,
    sourcemap: true,
    // scripts/check-bundle.mjs judges what matters, the initial load, from the manifest.
    chunkSizeWarningLimit: 2000,
    manifest: true,
    // Not Electron's Chromium only: the headless host serves the same files to any current browser.
    target: 'es2023',
    minify: 'oxc',
    reportCompressedSize: false,
    rolldownOptions: { input: { index: resolve(root, 'renderer/index.html') } },
  },
});
