/**
 * Tells a replay socket that keeps no batches (`buffer_steps` 0 in the engine's kv-events config: it answers every question
 * with the end marker alone) from one that has others: of an engine that started anew, or of another engine. A start beyond
 * the end of a buffer is answered likewise, so whether it is empty is asked from 0.
 *
 * A socket that once had a batch is not one of these, whatever it answers later.
 */
import type { ReplayOutcome } from './replay-client.ts';

export class EmptyReplay {
  /** The engine sent batches, and the socket had none of them. */
  isKnown = false;
  #hadBatch = false;

  /** The socket answered with a batch. */
  batch(): void {
    this.#hadBatch = true;
    this.isKnown = false;
  }

  /** Whether nothing is in the buffer, after an answer to a question from `from`. `ask`: asks from 0, to be stopped at the first batch. */
  async isEmpty({ status, messages }: ReplayOutcome, from: number, ask: () => Promise<ReplayOutcome>): Promise<boolean> {
    if (this.#hadBatch || status !== 'complete' || messages > 0) return false;
    if (from === 0) return true;
    const whole = await ask();
    return whole.status === 'complete' && whole.messages === 0;
  }
}

export function keepsNone(endpoint: string): string {
  return `${endpoint} keeps no batches (buffer_steps 0 in the engine's kv-events config), or answers for an engine that has published none: gaps cannot be filled`;
}
