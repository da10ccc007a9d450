import { EventEmitter } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { IPC_CONNECT, IPC_PORT, IPC_VIEW } from '#shared/desktop-port.ts';
import { startDesktop, type DesktopEngine, type DesktopOptions } from '../../../electron/main/desktop.ts';
import { createElectronDouble, WindowDouble } from './electron-double.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'pdscope-desktop-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function prepare(overrides: Partial<DesktopOptions> = {}, platform: NodeJS.Platform = 'linux') {
  const electron = createElectronDouble();
  const signals = Object.assign(new EventEmitter(), { platform });
  const log = vi.fn<(message: string) => void>();
  const order: string[] = [];
  const openSession = vi.fn<DesktopEngine['openSession']>((sink) => {
    sink.send({ t: 'result', id: 1, ok: true, value: 'hello' });
    return { receive: vi.fn(), close: () => order.push('session closed') };
  });
  const engine: DesktopEngine = {
    openSession,
    proxyUrl: () => 'http://127.0.0.1:8000/v1',
    close: () => {
      order.push('engine closed');
      return Promise.resolve();
    },
  };
  const start = (): Promise<void> =>
    startDesktop({
      electron: electron.api,
      openEngine: () => Promise.resolve(engine),
      preload: '/app/out/preload/index.cjs',
      rendererRoot: '/app/out/renderer',
      windowStatePath: join(folder, 'window-state.json'),
      devServerUrl: undefined,
      process: signals,
      log,
      ...overrides,
    });
  return { ...electron, signals, log, order, openSession, start };
}

function window(): WindowDouble {
  const made = WindowDouble.made[0];
  if (made === undefined) throw new Error('no window was made');
  return made;
}

/** Raises the page's wish for a port; answers what its frame was sent. */
function askForPort(ipcMain: EventEmitter, url: string, parent: unknown = null) {
  const postMessage = vi.fn();
  ipcMain.emit(IPC_CONNECT, { sender: window().webContents, senderFrame: { url, parent, postMessage } });
  return postMessage;
}

describe('startDesktop', () => {
  it('turns the sandbox on and registers the scheme before Electron is ready', async () => {
    const { app, schemes, start } = prepare();
    await start();
    expect(app.calls).toEqual(['enableSandbox', 'registerSchemes', 'whenReady']);
    expect(schemes).toMatchObject([{ scheme: 'app' }]);
  });

  it('gives the page no privilege', async () => {
    const { start } = prepare();
    await start();
    expect(window().options.webPreferences).toEqual({
      preload: '/app/out/preload/index.cjs',
      sandbox: true,
      contextIsolation: true,
      nodeIntegration: false,
      nodeIntegrationInWorker: false,
      nodeIntegrationInSubFrames: false,
      webSecurity: true,
      allowRunningInsecureContent: false,
      experimentalFeatures: false,
      webviewTag: false,
      navigateOnDragDrop: false,
      spellcheck: false,
    });
    expect(window().url).toBe('app://pdscope/');
  });

  it('hardens every WebContents, wherever it comes from', async () => {
    const { app, start } = prepare();
    await start();
    const { webContents } = window();
    app.emit('web-contents-created', {}, webContents);
    const preventDefault = vi.fn();
    webContents.emit('will-navigate', { url: 'https://example.com', preventDefault });
    expect(preventDefault).toHaveBeenCalled();
    expect(webContents.openHandler?.({ url: 'app://pdscope/' })).toEqual({ action: 'deny' });
  });

  it('shows the window at its first frame only', async () => {
    const { start } = prepare();
    await start();
    expect(window().options.show).toBe(false);
    expect(window().show).not.toHaveBeenCalled();
    window().emit('ready-to-show');
    expect(window().show).toHaveBeenCalledOnce();
  });

  it('remembers where the window was', async () => {
    const { start } = prepare();
    await start();
    window().emit('close');
    const path = join(folder, 'window-state.json');
    await vi.waitFor(() => expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ bounds: { x: 10, y: 20, width: 1200, height: 800 }, isMaximized: false }));
    const again = prepare();
    await again.start();
    expect(window().options).toMatchObject({ x: 10, width: 1200 });
  });
});

describe('one instance', () => {
  it('leaves at once when another has the lock, before an engine could take its ports', async () => {
    const openEngine = vi.fn();
    const { app, start, log } = prepare({ openEngine });
    app.hasLock = false;
    await start();
    expect(app.calls).toEqual(['quit']);
    expect(openEngine).not.toHaveBeenCalled();
    expect(WindowDouble.made).toEqual([]);
    expect(log).toHaveBeenCalledWith(expect.stringContaining('running already'));
  });

  it('brings its window to the front when a second one starts', async () => {
    const { app, start } = prepare();
    await start();
    window().isMinimizedNow = true;
    app.emit('second-instance');
    expect(window().restore).toHaveBeenCalledOnce();
    expect(window().focus).toHaveBeenCalledOnce();
    expect(WindowDouble.made).toHaveLength(1);
  });
});

describe('the port', () => {
  it('goes to the page that asked, with its session behind it', async () => {
    const { double, channels, openSession, start } = prepare();
    await start();
    const postMessage = askForPort(double.ipcMain, 'app://pdscope/#/overview');
    await vi.waitFor(() => expect(postMessage).toHaveBeenCalledExactlyOnceWith(IPC_PORT, undefined, [channels[0]?.port2]));
    expect(openSession).toHaveBeenCalledOnce();
    expect(channels[0]?.port1.posted).toEqual([{ n: 1, message: { t: 'result', id: 1, ok: true, value: 'hello' } }]);
  });

  it.each([
    ['https://example.com/', null],
    ['app://evil/', null],
    ['app://pdscope/', { url: 'app://pdscope/' }],
  ])('is refused to %s (parent: %s)', async (url, parent) => {
    const { double, openSession, log, start } = prepare();
    await start();
    const postMessage = askForPort(double.ipcMain, url, parent);
    await vi.waitFor(() => expect(log).toHaveBeenCalledWith(`refused a connection from ${url}`));
    expect(postMessage).not.toHaveBeenCalled();
    expect(openSession).not.toHaveBeenCalled();
  });

  it('replaces the session that the same page had', async () => {
    const { double, channels, order, start } = prepare();
    await start();
    const first = askForPort(double.ipcMain, 'app://pdscope/');
    await vi.waitFor(() => expect(first).toHaveBeenCalled());
    const second = askForPort(double.ipcMain, 'app://pdscope/');
    await vi.waitFor(() => expect(second).toHaveBeenCalled());
    expect(order).toEqual(['session closed']);
    expect([channels[0]?.port1.isClosed, channels[1]?.port1.isClosed]).toEqual([true, false]);
  });

  it('trusts the dev server in development only', async () => {
    const devServerUrl = 'http://localhost:5173/';
    const packaged = prepare({ devServerUrl });
    await packaged.start();
    expect(window().url).toBe('app://pdscope/');

    const development = prepare({ devServerUrl });
    development.app.isPackaged = false;
    await development.start();
    expect(window().url).toBe('http://localhost:5173/');
    const postMessage = askForPort(development.double.ipcMain, 'http://localhost:5173/');
    await vi.waitFor(() => expect(postMessage).toHaveBeenCalledOnce());
  });
});

describe('quitting', () => {
  it('ends sessions, then the engine, then the process', async () => {
    const { app, double, order, start } = prepare();
    await start();
    const postMessage = askForPort(double.ipcMain, 'app://pdscope/');
    await vi.waitFor(() => expect(postMessage).toHaveBeenCalled());
    app.exit.mockImplementation((code) => order.push(`exit ${code}`));
    app.emit('will-quit', { preventDefault: vi.fn() });
    await vi.waitFor(() => expect(app.exit).toHaveBeenCalled());
    expect(order).toEqual(['session closed', 'engine closed', 'exit 0']);
  });

  it('quits with its last window, except on macOS', async () => {
    const linux = prepare();
    await linux.start();
    linux.app.emit('window-all-closed');
    expect(linux.app.quit).toHaveBeenCalledOnce();

    const mac = prepare({}, 'darwin');
    await mac.start();
    mac.app.emit('window-all-closed');
    expect(mac.app.quit).not.toHaveBeenCalled();
    window().emit('closed');
    mac.app.emit('activate');
    await vi.waitFor(() => expect(WindowDouble.made).toHaveLength(2));
  });

  it('quits on Ctrl+C', async () => {
    const { app, signals, start } = prepare();
    await start();
    signals.emit('SIGINT');
    expect(app.quit).toHaveBeenCalledOnce();
  });

  it('says why the engine did not start, and ends with 1', async () => {
    const { app, double, start } = prepare({ openEngine: () => Promise.reject(new Error('port 8000 is in use')) });
    await start();
    expect(double.dialog.showErrorBox).toHaveBeenCalledWith('pdscope could not start', 'port 8000 is in use');
    expect(app.exit).toHaveBeenCalledExactlyOnceWith(1);
  });
});

describe('a page that crashes', () => {
  it('is reloaded once; a second crash soon after is told to the person', async () => {
    const { double, start } = prepare();
    await start();
    const { webContents } = window();
    webContents.emit('render-process-gone', {}, { reason: 'oom' });
    expect(webContents.reload).toHaveBeenCalledOnce();
    webContents.emit('render-process-gone', {}, { reason: 'oom' });
    expect(webContents.reload).toHaveBeenCalledOnce();
    expect(double.dialog.showErrorBox).toHaveBeenCalledWith(expect.any(String), expect.stringContaining('oom'));
  });

  it('is left alone when it ended by itself', async () => {
    const { start } = prepare();
    await start();
    window().webContents.emit('render-process-gone', {}, { reason: 'clean-exit' });
    expect(window().webContents.reload).not.toHaveBeenCalled();
  });
});

describe('the menu', () => {
  it('shows views by accelerator and copies the proxy URL', async () => {
    const { double, start } = prepare();
    await start();
    const template = double.Menu.setApplicationMenu.mock.calls[0]?.[0] as { label?: string; submenu?: { label?: string; accelerator?: string; click?: () => void }[] }[];
    const items = template.flatMap((menu) => menu.submenu ?? []);
    const requests = items.find((item) => item.label === 'Requests');
    expect(requests?.accelerator).toBe('CommandOrControl+2');
    requests?.click?.();
    expect(window().webContents.sent).toEqual([[IPC_VIEW, 'requests']]);
    items.find((item) => item.label === 'Copy Proxy URL')?.click?.();
    await vi.waitFor(() => expect(double.clipboard.writeText).toHaveBeenCalledExactlyOnceWith('http://127.0.0.1:8000/v1'));
  });
});
