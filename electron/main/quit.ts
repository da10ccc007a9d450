/**
 * Clean quit: windows go, sessions end, the engine closes its listeners and sockets, then the process ends. A close
 * that hangs is cut off, because Ctrl+C must end pdscope within 2 s whatever an instance does.
 */
import type { App } from 'electron';

/** How long the engine may take to close, ms. */
const CLOSE_DEADLINE_MS = 1500;

export interface QuitOptions {
  /** Ends sessions and the engine. Runs once. */
  readonly close: () => Promise<void>;
  readonly log: (message: string) => void;
  readonly deadlineMs?: number;
}

/** Makes every way to quit (menu, last window, signal, shutdown of the machine) pass through `close`. */
export function installCleanQuit(app: Pick<App, 'on' | 'exit' | 'quit'>, options: QuitOptions): void {
  const { close, log, deadlineMs = CLOSE_DEADLINE_MS } = options;
  let isClosing = false;
  app.on('will-quit', (event) => {
    // After will-quit all windows are gone; the process must stay until the engine has ended.
    event.preventDefault();
    if (isClosing) return;
    isClosing = true;
    void closeThenExit();
  });

  async function closeThenExit(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<'late'>((done) => {
      timer = setTimeout(() => done('late'), deadlineMs);
    });
    let code = 0;
    try {
      if ((await Promise.race([close(), deadline])) === 'late') {
        log(`the engine did not close within ${deadlineMs} ms; ending anyway`);
        code = 1;
      }
    } catch (error) {
      log(`the engine did not close cleanly: ${String(error)}`);
      code = 1;
    }
    clearTimeout(timer);
    app.exit(code);
  }
}

/** What delivers signals; the host's process. */
export interface SignalSource {
  on(signal: NodeJS.Signals, listener: () => void): unknown;
}

/** Ctrl+C and a stop by the system quit like the menu does. A terminal may deliver the same wish twice. */
export function quitOnSignals(app: Pick<App, 'quit'>, process: SignalSource): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => app.quit());
}
