/**
 * A double of the parts of Electron that the main process uses. It records what was set and lets a test raise the
 * events that Electron would; it decides nothing, so what the tests assert is the host's own doing.
 */
import { EventEmitter } from 'node:events';
import { vi } from 'vitest';
import type { ElectronApi } from '../../../electron/main/desktop.ts';

export type Handler = (...args: never[]) => unknown;

/** One end of a channel. `postMessage` is what the host sends; `emit` is what arrives at the host. */
export class PortDouble extends EventEmitter {
  readonly posted: unknown[] = [];
  isStarted = false;
  isClosed = false;

  postMessage(message: unknown): void {
    this.posted.push(message);
  }

  start(): void {
    this.isStarted = true;
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.emit('close');
  }
}

export class WebContentsDouble extends EventEmitter {
  readonly sent: unknown[][] = [];
  readonly reload = vi.fn();
  openHandler: ((details: { url: string }) => { action: string }) | undefined;
  readonly id: number;

  constructor(id: number) {
    super();
    this.id = id;
  }

  setWindowOpenHandler(handler: (details: { url: string }) => { action: string }): void {
    this.openHandler = handler;
  }

  send(...args: unknown[]): void {
    this.sent.push(args);
  }

  isDestroyed(): boolean {
    return false;
  }
}

export class WindowDouble extends EventEmitter {
  static readonly made: WindowDouble[] = [];
  readonly webContents: WebContentsDouble;
  readonly options: { readonly webPreferences: Record<string, unknown>; readonly x?: number; readonly width: number; readonly show: boolean };
  readonly show = vi.fn();
  readonly focus = vi.fn();
  readonly restore = vi.fn();
  readonly maximize = vi.fn();
  isMinimizedNow = false;
  url: string | undefined;

  constructor(options: WindowDouble['options']) {
    super();
    this.options = options;
    this.webContents = new WebContentsDouble(WindowDouble.made.length + 1);
    WindowDouble.made.push(this);
  }

  loadURL(url: string): Promise<void> {
    this.url = url;
    return Promise.resolve();
  }

  isMinimized(): boolean {
    return this.isMinimizedNow;
  }

  isMaximized(): boolean {
    return false;
  }

  getNormalBounds(): object {
    return { x: 10, y: 20, width: 1200, height: 800 };
  }
}

class AppDouble extends EventEmitter {
  readonly calls: string[] = [];
  hasLock = true;
  isPackaged = true;
  readonly exit = vi.fn((code: number) => this.calls.push(`exit ${code}`));
  readonly quit = vi.fn(() => this.calls.push('quit'));

  requestSingleInstanceLock(): boolean {
    return this.hasLock;
  }

  enableSandbox(): void {
    this.calls.push('enableSandbox');
  }

  whenReady(): Promise<void> {
    this.calls.push('whenReady');
    return Promise.resolve();
  }
}

export function createElectronDouble() {
  WindowDouble.made.length = 0;
  const app = new AppDouble();
  const channels: { port1: PortDouble; port2: PortDouble }[] = [];
  const sessionHandlers = new Map<string, Handler>();
  const schemes: unknown[] = [];
  const double = {
    app,
    BrowserWindow: WindowDouble,
    clipboard: { writeText: vi.fn(() => Promise.resolve()) },
    dialog: { showErrorBox: vi.fn() },
    ipcMain: new EventEmitter(),
    Menu: { setApplicationMenu: vi.fn(), buildFromTemplate: vi.fn((template: unknown) => template) },
    MessageChannelMain: class {
      readonly port1 = new PortDouble();
      readonly port2 = new PortDouble();
      constructor() {
        channels.push(this);
      }
    },
    nativeTheme: { shouldUseDarkColors: true },
    protocol: {
      registerSchemesAsPrivileged: vi.fn((list: unknown[]) => {
        app.calls.push('registerSchemes');
        schemes.push(...list);
      }),
      handle: vi.fn(),
    },
    screen: {
      getPrimaryDisplay: () => ({ id: 1, workArea: { x: 0, y: 0, width: 1920, height: 1040 } }),
      getAllDisplays: () => [{ id: 1, workArea: { x: 0, y: 0, width: 1920, height: 1040 } }],
    },
    session: {
      defaultSession: {
        setPermissionRequestHandler: (handler: Handler) => sessionHandlers.set('request', handler),
        setPermissionCheckHandler: (handler: Handler) => sessionHandlers.set('check', handler),
        setDevicePermissionHandler: (handler: Handler) => sessionHandlers.set('device', handler),
      },
    },
    shell: { openExternal: vi.fn(() => Promise.resolve()) },
  };
  return { double, app, channels, schemes, sessionHandlers, api: double as unknown as ElectronApi };
}
