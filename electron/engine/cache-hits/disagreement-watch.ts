/**
 * Makes findings of disagreements that last. One is reported when it was seen several times in a row, closes when it was
 * gone for longer, and is reported again when it comes back, so that a rate near the limit does not report itself every
 * few seconds.
 */
import type { HitSource } from '#shared/cache.ts';
import type { Verdict } from '#shared/findings.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { ConditionSink } from '../findings/findings.ts';
import type { Disagreement } from './reconcile.ts';

/** Looks in a row before it is reported. */
const TO_OPEN = 3;
/** Looks in a row without it before it is over. */
const TO_CLOSE = 6;

interface Watched {
  readonly about: Pick<Verdict, 'code'> & { readonly instance: InstanceId };
  seen: number;
  missed: number;
  isOpen: boolean;
}

export class DisagreementWatch {
  readonly #findings: ConditionSink;
  readonly #watched = new Map<string, Watched>();

  constructor(findings: ConditionSink) {
    this.#findings = findings;
  }

  /**
   * One look at all instances.
   * @param clear differences that are beyond doubt: they open.
   * @param any smaller ones too: they keep open what is open.
   */
  look(clear: readonly Disagreement[], any: readonly Disagreement[]): void {
    const still = new Set(any.map(keyOf));
    for (const disagreement of clear) this.#seen(disagreement);
    const isClear = new Set(clear.map(keyOf));
    for (const [key, watched] of this.#watched) {
      if (isClear.has(key)) continue;
      if (watched.isOpen && still.has(key)) {
        watched.missed = 0;
        continue;
      }
      watched.seen = 0;
      watched.missed += 1;
      if (watched.isOpen && watched.missed < TO_CLOSE) continue;
      if (watched.isOpen) this.#findings.settle(watched.about);
      this.#watched.delete(key);
    }
  }

  #seen(disagreement: Disagreement): void {
    const key = keyOf(disagreement);
    const watched = this.#watched.get(key) ?? { about: { code: disagreement.code, instance: disagreement.instance }, seen: 0, missed: 0, isOpen: false };
    this.#watched.set(key, watched);
    watched.missed = 0;
    watched.seen += 1;
    if (watched.isOpen || watched.seen < TO_OPEN) return;
    watched.isOpen = true;
    this.#findings.report(verdictOf(disagreement), { instanceName: disagreement.instanceName });
  }
}

function keyOf({ instance, code }: Disagreement): string {
  return `${instance} ${code}`;
}

/** Whose figure it is, as engines and answers call it. */
const SOURCE_WORDS: Readonly<Record<HitSource, string>> = {
  'engine-local': 'prefix_cache counters', 'engine-external': 'external_prefix_cache counters', 'by-source': 'prompt_tokens_by_source',
  'prefill-cached-tokens': 'cached_tokens of prefill', 'decode-cached-tokens': 'cached_tokens of decode', index: 'its KV events',
};

function verdictOf({ code, severity, title, meaning, nextStep, instance, instanceName, left, right, leftRate, rightRate, promptTokens }: Disagreement): Verdict {
  const [one, other] = promptTokens === undefined ? [percent(leftRate), percent(rightRate)] : [`${promptTokens.left} prompt tokens`, `${promptTokens.right} prompt tokens`];
  const message = `${instanceName}: ${one} by ${SOURCE_WORDS[left]}, ${other} by ${SOURCE_WORDS[right]}. ${meaning}`;
  return { code, severity, title, message, nextStep, instance };
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}
