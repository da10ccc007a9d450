/**
 * Ctrl+C and SIGTERM: once is a clean stop with a deadline, twice is now.
 *
 * npm passes on a signal that the terminal has delivered already, so one Ctrl+C arrives twice within milliseconds; a
 * second one counts only after a pause that no program and every person makes.
 */
import { constants } from 'node:os';

const SAME_PRESS_MS = 400;
/** Ctrl+C must end pdscope within 2 s. */
const CLOSE_DEADLINE_MS = 1800;

export interface StopHooks {
  /** What to say at the start, e.g. how many requests are in flight. */
  readonly announce: () => void;
  readonly close: () => Promise<void>;
  readonly say: (text: string) => void;
  /** Default process.exit. */
  readonly exit?: (code: number) => void;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Installs the handlers on `target` (default: this process). Answers how to take them off. */
export function stopOnSignals(hooks: StopHooks, target: NodeJS.EventEmitter = process): () => void {
  const { announce, close, say, exit = (code: number) => process.exit(code) } = hooks;
  let stoppingSinceMs: number | undefined;

  async function stop(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), CLOSE_DEADLINE_MS);
    });
    try {
      announce();
      const outcome = await Promise.race([close(), deadline]);
      if (outcome === 'late') say(`pdscope: not everything closed within ${CLOSE_DEADLINE_MS} ms; ending anyway`);
      exit(0);
    } catch (error) {
      say(`pdscope: stopping failed: ${String(error)}`);
      exit(1);
    } finally {
      clearTimeout(timer);
    }
  }

  const listeners = SIGNALS.map((signal) => {
    const listener = (): void => {
      if (stoppingSinceMs === undefined) {
        stoppingSinceMs = performance.now();
        void stop();
      } else if (performance.now() - stoppingSinceMs > SAME_PRESS_MS) {
        exit(128 + constants.signals[signal]);
      }
    };
    target.on(signal, listener);
    return { signal, listener };
  });
  return () => {
    for (const { signal, listener } of listeners) target.off(signal, listener);
  };
}
