import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';

/** Waits for a state, not for a time: polls until `look` answers something, and fails with `what` at the deadline. */
export async function waitFor<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>, deadlineMs = WAIT_LIMIT_MS): Promise<T> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > endMs) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
