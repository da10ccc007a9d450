/**
 * Which engines announce blocks that requests found in their cache: those that a request lately asked to
 * (`kv_cache_report_mode: "full"`, vLLM since 2026-07), by pdscope's setting or by the client's own wish. On the wire an
 * announcement looks like the store of a further copy, so both are told apart by who was asked, and when.
 *
 * An engine announces when it schedules the request, at once or after a wait in its queue; it counts as announcing from a
 * little before the first such leg was sent until well after the last. A client that asks past pdscope is not seen.
 */
import type { InstanceId } from '#shared/ids.ts';

/** What clocks, put right by the least delay seen, may still disagree. */
const BEFORE_MS = 5000;
/** The longest wait in an engine's queue that is reckoned with. */
const AFTER_MS = 600_000;

interface Asked {
  readonly firstUnixMs: number;
  lastUnixMs: number;
}

export class ReuseAnnouncers {
  readonly #asked = new Map<InstanceId, Asked>();

  /** A leg that asks for announcements is sent to the instance. Called on the hot path. */
  ask(instance: InstanceId, atUnixMs: number): void {
    const asked = this.#asked.get(instance);
    if (asked !== undefined && atUnixMs <= asked.lastUnixMs + AFTER_MS) {
      asked.lastUnixMs = Math.max(asked.lastUnixMs, atUnixMs);
      return;
    }
    // Instances that left are forgotten when another one comes.
    for (const [id, { lastUnixMs }] of this.#asked) if (lastUnixMs + AFTER_MS < atUnixMs) this.#asked.delete(id);
    this.#asked.set(instance, { firstUnixMs: atUnixMs, lastUnixMs: atUnixMs });
  }

  /** Whether what the instance published at a time, by our clock, may announce reuse. */
  isAnnouncing(instance: InstanceId, atUnixMs: number): boolean {
    const asked = this.#asked.get(instance);
    return asked !== undefined && atUnixMs >= asked.firstUnixMs - BEFORE_MS && atUnixMs <= asked.lastUnixMs + AFTER_MS;
  }
}
