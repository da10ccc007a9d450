/** What is kept of an explained request, beside its record: the report, and its missed tokens by cause. Bounded. */
import type { MissKind, MissReport } from '#shared/cache.ts';
import type { HeldAtDecode } from './held-at-decode.ts';

export interface DivergencePlace {
  readonly token: number;
  readonly lead: readonly number[];
  readonly asked: readonly number[];
  readonly held: readonly number[];
  /** In which part of the prompt it stands, where that is known. */
  readonly where?: string;
}

/** Missed tokens of one request under one cause. Equal `key`s of many requests are gathered (miss-summary.ts). */
export interface MissShare {
  readonly key: string;
  readonly kind: MissKind;
  readonly tokens: number;
  /** What the cause is called, without its decoded text. */
  readonly title: string;
  /** Of divergences: where, what stands before it, and what differs there. */
  readonly place?: DivergencePlace;
}

export type KeptMiss =
  /** `leg`: which of the record's legs computed the prompt. `held`: what the decode instance had of it. `bytes`: its memory, about. */
  | { readonly state: 'ready'; readonly report: MissReport; readonly shares: readonly MissShare[]; readonly leg: number; readonly held?: HeldAtDecode; readonly bytes: number }
  /** `isPending`: it is being found out. */
  | { readonly state: 'unavailable'; readonly reason: string; readonly isPending: boolean };
