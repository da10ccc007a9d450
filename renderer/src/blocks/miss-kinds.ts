/** Verdicts of "why a miss": words, and how each is drawn. Colour is the state, the pattern tells apart. */
import type { MissKind } from '#shared/cache.ts';

export interface MissLook {
  /** As on a bar. */
  readonly label: string;
  /** What it means, for hovers and legends. */
  readonly meaning: string;
  readonly color: string;
  readonly pattern: 'solid' | 'empty' | 'diagonal' | 'backward' | 'vertical' | 'horizontal' | 'dots' | 'cross' | 'dense';
}

export const MISS_LOOK: Readonly<Record<MissKind, MissLook>> = {
  hit: { label: 'hit', meaning: 'resident on the chosen instance when the request was scheduled', color: 'var(--pd-kv)', pattern: 'solid' },
  'never-stored': { label: 'never stored', meaning: 'no instance has had these blocks: the text is new', color: 'var(--pd-text-faint)', pattern: 'empty' },
  evicted: { label: 'evicted', meaning: 'the chosen instance had them and gave them up', color: 'var(--pd-warning-fill)', pattern: 'diagonal' },
  elsewhere: { label: 'elsewhere', meaning: 'another instance held them: routing could have found them', color: 'var(--pd-accent)', pattern: 'dots' },
  diverges: { label: 'diverges', meaning: 'a known prompt begins alike and then differs at one token', color: 'var(--pd-error)', pattern: 'vertical' },
  'other-key': { label: 'other key', meaning: 'the same tokens under another salt, LoRA or media key', color: 'var(--pd-error)', pattern: 'cross' },
  'partial-block': { label: 'partial block', meaning: 'the last tokens do not fill a block; only whole blocks are cached', color: 'var(--pd-line-strong)', pattern: 'dense' },
  reset: { label: 'reset', meaning: 'a cache reset or a restart of the engine took them', color: 'var(--pd-warning-fill)', pattern: 'horizontal' },
  unknown: { label: 'unknown', meaning: 'events that would tell were lost', color: 'var(--pd-phase-unattributed)', pattern: 'backward' },
};
