import type { LegRecord } from '../telemetry/request-record.ts';

/** The leg that computes the prompt: prefill, a request passed on whole, or decode when there was no prefill or it failed. */
export function isComputing({ kind, status = 0, record }: LegRecord): boolean {
  if (status >= 300) return false;
  if (kind === 'prefill' || kind === 'forward') return true;
  return kind === 'decode' && !record.legs.some((leg) => leg.kind === 'prefill' && leg.outcome !== 'error' && (leg.status ?? 200) < 300);
}
