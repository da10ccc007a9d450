/**
 * The desktop host, put together: one instance, one engine in this process, one window that reaches it over a port.
 * Takes Electron as a parameter, so that everything it sets can be asserted where Electron cannot run; only index.ts
 * imports the real module.
 */
import type * as Electron from 'electron';
import type { Session, SessionSink } from '#engine/session/session.ts';
import { IPC_CONNECT, IPC_PORT, IPC_VIEW } from '#shared/desktop-port.ts';
import { errorMessage } from '#shared/errors.ts';
import { APP_SCHEME_PRIVILEGES, createAppProtocol } from './app-protocol.ts';
import { hardenContents, hardenSession } from './hardening.ts';
import { menuTemplate } from './menu.ts';
import { APP_ORIGIN, APP_SCHEME, devOrigin, isTrustedFrame } from './origins.ts';
import { installCleanQuit, quitOnSignals, type SignalSource } from './quit.ts';
import { attachSessionPort } from './session-port.ts';
import { loadWindowState, placeWindow, saveWindowState } from './window-state.ts';
import { reloadAfterCrash, watchWindowState, windowOptions } from './window.ts';

export type ElectronApi = Pick<
  typeof Electron,
  'app' | 'BrowserWindow' | 'clipboard' | 'dialog' | 'ipcMain' | 'Menu' | 'MessageChannelMain' | 'nativeTheme' | 'protocol' | 'screen' | 'session' | 'shell'
>;

/** What the desktop needs of an engine. */
export interface DesktopEngine {
  openSession(sink: SessionSink): Session;
  /** Base URL for clients; undefined when the proxy is not listening. */
  proxyUrl(): string | undefined;
  close(): Promise<void>;
}

export interface DesktopOptions {
  readonly electron: ElectronApi;
  /** Rejects with words for the person, e.g. that the proxy's port is taken. */
  readonly openEngine: () => Promise<DesktopEngine>;
  /** Built preload script, absolute path. */
  readonly preload: string;
  /** Folder of the built renderer, absolute path. */
  readonly rendererRoot: string;
  /** Where window-state.json goes, absolute path. */
  readonly windowStatePath: string;
  /** Address of the dev server; heeded on loopback and when not packaged only. */
  readonly devServerUrl: string | undefined;
  /** Process of the host: its signals, its platform. */
  readonly process: SignalSource & { readonly platform: NodeJS.Platform };
  readonly log: (message: string) => void;
}

/** Starts the desktop app. Resolves when the window is open, or at once when another instance has it already. */
export async function startDesktop(options: DesktopOptions): Promise<void> {
  const { electron, log } = options;
  const { app } = electron;

  if (!app.requestSingleInstanceLock()) {
    log('pdscope is running already; its window comes to the front');
    app.quit();
    return;
  }
  app.enableSandbox();
  electron.protocol.registerSchemesAsPrivileged([APP_SCHEME_PRIVILEGES]);

  const dev = devOrigin(options.devServerUrl, app.isPackaged);
  const trusted = new Set(dev === undefined ? [APP_ORIGIN] : [APP_ORIGIN, dev]);
  const host = new DesktopHost(options, trusted, dev ?? APP_ORIGIN);

  app.on('web-contents-created', (_event, contents) => hardenContents(contents, trusted, electron.shell));
  app.on('second-instance', () => host.focusWindow());
  app.on('activate', () => host.focusWindow());
  app.on('window-all-closed', () => {
    // macOS keeps an app without windows; the proxy goes on serving there.
    if (options.process.platform !== 'darwin') app.quit();
  });
  quitOnSignals(app, options.process);
  installCleanQuit(app, { close: () => host.close(), log });

  await app.whenReady();
  hardenSession(electron.session.defaultSession, trusted);
  electron.protocol.handle(APP_SCHEME, createAppProtocol(options.rendererRoot));
  electron.ipcMain.on(IPC_CONNECT, (event) => void host.connect(event));
  electron.Menu.setApplicationMenu(
    electron.Menu.buildFromTemplate(
      menuTemplate(options.process.platform, { showView: (id) => host.showView(id), copyProxyUrl: () => void host.copyProxyUrl() }),
    ),
  );
  await host.start();
}

/** The engine, the window and the sessions between them. */
class DesktopHost {
  readonly #options: DesktopOptions;
  readonly #trusted: ReadonlySet<string>;
  readonly #pageOrigin: string;
  /** Ends the session of a page, by id of its WebContents: a page has one at a time. */
  readonly #sessions = new Map<number, () => void>();
  #engine: Promise<DesktopEngine> | undefined;
  #window: Electron.BrowserWindow | undefined;
  /** Set while a window is being made, so that two wishes make one window. */
  #opening: Promise<void> | undefined;

  constructor(options: DesktopOptions, trusted: ReadonlySet<string>, pageOrigin: string) {
    this.#options = options;
    this.#trusted = trusted;
    this.#pageOrigin = pageOrigin;
  }

  /** Opens engine and window at the same time: the page loads while the engine starts, and waits for its port. */
  async start(): Promise<void> {
    this.#engine = this.#options.openEngine();
    const [engine] = await Promise.allSettled([this.#engine, this.#openWindow()]);
    if (engine.status === 'fulfilled') return;
    const message = errorMessage(engine.reason);
    this.#options.log(`could not start: ${message}`);
    this.#engine = undefined;
    this.#options.electron.dialog.showErrorBox('pdscope could not start', message);
    this.#options.electron.app.exit(1);
  }

  #openWindow(): Promise<void> {
    this.#opening ??= this.#makeWindow()
      .catch((error: unknown) => this.#options.log(`the window did not load: ${errorMessage(error)}`))
      .finally(() => {
        this.#opening = undefined;
      });
    return this.#opening;
  }

  async #makeWindow(): Promise<void> {
    const { electron, preload, windowStatePath, log } = this.#options;
    const saved = await loadWindowState(windowStatePath);
    const primary = electron.screen.getPrimaryDisplay();
    const others = electron.screen.getAllDisplays().filter((display) => display.id !== primary.id);
    const placement = placeWindow(saved, [primary, ...others].map((display) => display.workArea));
    const window = new electron.BrowserWindow(
      windowOptions({ placement, preload, isDark: electron.nativeTheme.shouldUseDarkColors }),
    );
    this.#window = window;
    if (placement.isMaximized) window.maximize();
    window.once('ready-to-show', () => window.show());
    window.on('closed', () => {
      this.#window = undefined;
    });
    watchWindowState(window, (state) => {
      saveWindowState(windowStatePath, state).catch((error: unknown) => log(`window position not saved: ${errorMessage(error)}`));
    });
    reloadAfterCrash(window, (reason) => {
      electron.dialog.showErrorBox('The pdscope window keeps failing', `Its process ended twice (${reason}). The proxy is still running; reopen the app.`);
    });
    await window.loadURL(`${this.#pageOrigin}/`);
  }

  /** Brings the window to the front, or opens one (macOS, after the last was closed). Nothing before `start`. */
  focusWindow(): void {
    const window = this.#window;
    if (window === undefined) {
      if (this.#engine !== undefined) void this.#openWindow();
      return;
    }
    if (window.isMinimized()) window.restore();
    window.show();
    window.focus();
  }

  /** Gives the asking page a port to the engine. Anything but a top frame of the app gets no answer. */
  async connect(event: Pick<Electron.IpcMainEvent, 'sender' | 'senderFrame'>): Promise<void> {
    const { electron, log } = this.#options;
    const { sender, senderFrame: frame } = event;
    if (!isTrustedFrame(frame, this.#trusted)) {
      log(`refused a connection from ${frame?.url ?? 'a frame that is gone'}`);
      return;
    }
    const engine = await this.#engine?.catch(() => undefined);
    // The page may have gone elsewhere while the engine started.
    if (engine === undefined || sender.isDestroyed() || !isTrustedFrame(frame, this.#trusted)) return;
    this.#sessions.get(sender.id)?.();
    const { port1, port2 } = new electron.MessageChannelMain();
    const close = attachSessionPort(port1, (sink) => engine.openSession(sink));
    this.#sessions.set(sender.id, close);
    port1.on('close', () => {
      if (this.#sessions.get(sender.id) === close) this.#sessions.delete(sender.id);
    });
    frame?.postMessage(IPC_PORT, undefined, [port2]);
  }

  showView(id: string): void {
    this.#window?.webContents.send(IPC_VIEW, id);
  }

  async copyProxyUrl(): Promise<void> {
    const engine = await this.#engine?.catch(() => undefined);
    const url = engine?.proxyUrl();
    if (url !== undefined) await this.#options.electron.clipboard.writeText(url);
  }

  /** Sessions first, so that no page is told about an engine that is half closed. */
  async close(): Promise<void> {
    for (const close of this.#sessions.values()) close();
    this.#sessions.clear();
    const engine = await this.#engine?.catch(() => undefined);
    await engine?.close();
  }
}
