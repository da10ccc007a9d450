#!/usr/bin/env node
/**
 * `npm run dev`: the page with hot reload, the engine rebuilt and restarted on change. In Electron where its binary and
 * a display are there, else vite's dev server in front of a headless host. Takes the arguments of `npm start`.
 */
import { randomBytes } from 'node:crypto';
import { createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { ensureNode } from './lib/check-node.mjs';
import { findElectron } from './lib/electron.mjs';
import { ensureInstalled } from './lib/install.mjs';
import { packageBin } from './lib/package-bin.mjs';
import { OUT, ROOT } from './lib/paths.mjs';
import { RestartingProcess } from './lib/restarting-process.mjs';
import { run } from './lib/run.mjs';
import { planStart } from './lib/start-plan.mjs';

/** Beside the real output: `npm start` must never take a development build for a current one. */
const DEV_OUT = join(OUT, 'dev');

ensureNode();
await ensureInstalled();
process.chdir(ROOT);
process.env.PDSCOPE_OUT_DIR = DEV_OUT;

const plan = planStart(process.argv.slice(2));
const electron = plan.wantsWindow ? findElectron() : { reason: 'it was asked for' };
if (electron.path !== undefined) {
  const entry = join(DEV_OUT, 'main', 'index.js');
  const { code } = await run(process.execPath, [packageBin('electron-vite', 'electron-vite'), 'dev', '--watch', '--entry', entry, '--', ...plan.args]);
  process.exit(code > 128 ? 0 : code);
}
console.log(`pdscope: headless, because ${electron.reason}`);
await developHeadless();

async function developHeadless() {
  const { build, createServer } = await import('vite');
  const controlPort = await freePort();
  const token = randomBytes(24).toString('base64url');
  const engine = new RestartingProcess(
    ['--enable-source-maps', join(DEV_OUT, 'headless', 'cli.js'), ...plan.args, '--control-port', String(controlPort), '--no-open'],
    { PDSCOPE_TOKEN: token },
  );

  const watcher = await build({
    configFile: 'vite.headless.config.ts',
    logLevel: 'warn',
    // Editors and git replace files in two steps: the delay spares a build of the moment between. The folder is not
    // emptied, so that an engine which is just starting finds the chunks of its own build.
    build: { emptyOutDir: false, watch: { buildDelay: 150 } },
  });
  let isBroken = false;
  watcher.on('event', (event) => {
    if (event.code === 'START') isBroken = false;
    // Vite has said what is wrong; the engine of the last good build goes on.
    if (event.code === 'ERROR') isBroken = true;
    if (event.code === 'END' && !isBroken) engine.restart();
    if ('result' in event) void event.result?.close();
  });

  const target = `http://127.0.0.1:${controlPort}`;
  const server = await createServer({
    configFile: 'vite.renderer.config.ts',
    logLevel: 'warn',
    server: { proxy: { '/api': proxyTo(target, true), '/login': proxyTo(target, false) } },
  });
  await server.listen();
  const { port } = server.httpServer.address();
  console.log(`pdscope: http://127.0.0.1:${port}/login?token=${token}`);

  let isStopping = false;
  const stop = async () => {
    if (isStopping) return;
    isStopping = true;
    await Promise.all([engine.stop(), server.close(), watcher.close()]);
    process.exit(0);
  };
  process.on('SIGINT', () => void stop());
  process.on('SIGTERM', () => void stop());
}

/** The control port compares Host and Origin exactly, so the dev server must speak as its page would. */
function proxyTo(target, ws) {
  return {
    target,
    ws,
    changeOrigin: true,
    configure: (proxy) => {
      const asOwnPage = (request) => {
        if (request.getHeader('origin') !== undefined) request.setHeader('origin', target);
      };
      proxy.on('proxyReq', asOwnPage);
      proxy.on('proxyReqWs', asOwnPage);
      // The engine restarts under the page; the page's own reconnection shows it.
      proxy.on('error', () => {});
    },
  };
}

/** A port that is free now; the engine must come back on the same one after every restart. */
function freePort() {
  return new Promise((done, fail) => {
    const server = createTcpServer();
    server.once('error', fail);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}
