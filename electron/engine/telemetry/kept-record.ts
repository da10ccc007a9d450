/** What is read of records beside their rows and details, whether they are sealed (record-vault.ts) or not. */
import type { MissReport } from '#shared/cache.ts';
import type { RecordId } from '#shared/ids.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import type { HeldAtDecode } from '../cache/held-at-decode.ts';
import type { MissShare } from '../cache/kept-report.ts';
import type { LegRecord } from './request-record.ts';

/** Why it missed, without the report itself. */
export type MissBrief =
  | { readonly state: 'ready'; readonly report: Pick<MissReport, 'promptTokens' | 'isOpened'>; readonly shares: readonly MissShare[]; readonly leg: number; readonly held?: HeldAtDecode }
  | { readonly state: 'unavailable'; readonly reason: string; readonly isPending: boolean };

export type LegBrief = Pick<LegRecord, 'kind' | 'usage'> & {
  readonly instance: Pick<LegRecord['instance'], 'id'>;
  /** Of a sealed record only whether there were any: `true`, or undefined. */
  readonly transferParamsSent: unknown;
};

export interface KeptRecord {
  readonly id: RecordId;
  readonly n: number;
  readonly isOwnProbe: boolean;
  readonly init: { readonly connector: ConnectorName };
  readonly legs: readonly LegBrief[];
  readonly why: MissBrief | undefined;
  /** Milliseconds since the request was received. */
  elapsedMs(): number;
}

/** A record and the report why it missed. */
export interface ExplainedRecord {
  readonly legs: readonly LegBrief[];
  readonly why: { readonly state: 'ready'; readonly report: MissReport; readonly leg: number } | { readonly state: 'unavailable'; readonly reason: string; readonly isPending: boolean } | undefined;
}
