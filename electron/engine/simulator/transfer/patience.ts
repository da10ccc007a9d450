/** Waiting for a push: the consumer is told of arrivals only, so every failure looks like a producer that is late. */
import type { OpenAnswer } from './lease-store.ts';

/** Resolves after `ms`, or at once when the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted || ms <= 0) {
      resolve();
      return;
    }
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms).unref();
    signal.addEventListener('abort', end);
  });
}

/** What `open` refuses is reported when `waitMs` is over, not before. */
export async function openPatiently(open: () => Promise<OpenAnswer>, waitMs: number, signal: AbortSignal): Promise<OpenAnswer> {
  const endsAtMs = performance.now() + waitMs;
  const answer = await open();
  if (!answer.isOk) await pause(endsAtMs - performance.now(), signal);
  return answer;
}
