/** Entry of the desktop app: hands the real Electron and the real engine to desktop.ts. */
import { join } from 'node:path';
import {
  app, BrowserWindow, clipboard, dialog, ipcMain, Menu, MessageChannelMain, nativeTheme, protocol, screen, session, shell,
} from 'electron';
import { createEngine } from '#engine/engine.ts';
import { createSession } from '#engine/session/session.ts';
import { parseServeArgs } from '../headless/commands/serve-command.ts';
import { createLogger } from '../headless/logger.ts';
import { serveArguments } from './arguments.ts';
import { startDesktop, type DesktopEngine } from './desktop.ts';

/** `out/`: main, preload and renderer are built beside each other. */
const OUT = join(import.meta.dirname, '..');

// Not awaited: Electron becomes ready only after its entry module has run to the end, and starting waits for ready.
void startDesktop({
  electron: { app, BrowserWindow, clipboard, dialog, ipcMain, Menu, MessageChannelMain, nativeTheme, protocol, screen, session, shell },
  openEngine,
  preload: join(OUT, 'preload', 'index.cjs'),
  rendererRoot: join(OUT, 'renderer'),
  windowStatePath: join(app.getPath('userData'), 'window-state.json'),
  devServerUrl: process.env['ELECTRON_RENDERER_URL'],
  process,
  log,
}).catch((error: unknown) => {
  log(error instanceof Error ? (error.stack ?? error.message) : String(error));
  app.exit(1);
});

function log(message: string): void {
  process.stderr.write(`pdscope: ${message}\n`);
}

async function openEngine(): Promise<DesktopEngine> {
  const settings = await parseServeArgs(serveArguments(process.argv, app.isPackaged), process.env);
  const logger = await createLogger(settings.log);
  const engine = await createEngine({ ...settings.engine, version: app.getVersion(), host: 'desktop', logger });
  return {
    openSession: (sink) => createSession(engine, sink, { logger }),
    proxyUrl: () => engine.proxyAddress.url,
    close: () => engine.close(),
  };
}
