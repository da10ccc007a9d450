/** The app's window: what it may do, where it opens, how it comes back after a crash of its page. */
import type { BrowserWindow, BrowserWindowConstructorOptions, Rectangle } from 'electron';
import { MIN_SIZE, type Placement, type WindowState } from './window-state.ts';

/** A page that crashes twice within this time is not reloaded again, ms. */
const CRASH_LOOP_MS = 10_000;
/** Resizing sends many events; the state is saved when they have stopped for this long, ms. */
const SAVE_DELAY_MS = 500;

export interface WindowOptions {
  readonly placement: Placement;
  /** Built preload, absolute path. */
  readonly preload: string;
  readonly isDark: boolean;
}

/** Options of the window. The page is as unprivileged as Electron can make it. */
export function windowOptions({ placement, preload, isDark }: WindowOptions): BrowserWindowConstructorOptions {
  const { isMaximized: _applied, ...bounds } = placement;
  return {
    ...bounds,
    minWidth: MIN_SIZE.width,
    minHeight: MIN_SIZE.height,
    title: 'pdscope',
    // Shown when the first frame is painted; until then, the colour of the page's own background.
    show: false,
    backgroundColor: isDark ? '#101214' : '#ffffff',
    autoHideMenuBar: false,
    webPreferences: {
      preload,
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
    },
  };
}

/** Calls `save` when the window has come to rest somewhere else, and when it closes. */
export function watchWindowState(window: BrowserWindow, save: (state: WindowState) => void): void {
  let timer: NodeJS.Timeout | undefined;
  const saveNow = (): void => {
    clearTimeout(timer);
    // Normal bounds: a maximised window comes back maximised and restores to the size it had before.
    const bounds: Rectangle = window.getNormalBounds();
    save({ bounds, isMaximized: window.isMaximized() });
  };
  const saveSoon = (): void => {
    clearTimeout(timer);
    timer = setTimeout(saveNow, SAVE_DELAY_MS);
  };
  window.on('resize', saveSoon);
  window.on('move', saveSoon);
  window.on('close', saveNow);
  window.on('closed', () => clearTimeout(timer));
}

/**
 * Reloads a page whose process died (out of memory, GPU fault): the engine is in this process and has lost nothing.
 * @param giveUp Called with the reason when reloading does not help.
 */
export function reloadAfterCrash(window: BrowserWindow, giveUp: (reason: string) => void, now: () => number = () => performance.now()): void {
  let lastCrashAt = Number.NEGATIVE_INFINITY;
  window.webContents.on('render-process-gone', (_event, { reason }) => {
    if (reason === 'clean-exit') return;
    const isLoop = now() - lastCrashAt < CRASH_LOOP_MS;
    lastCrashAt = now();
    if (isLoop) giveUp(reason);
    else window.webContents.reload();
  });
}
