/** Which hop of a request each verdict is about. Pure. */
import { HOPS, type Hop, type Severity, type Verdict } from '#shared/findings.ts';
import type { LegView, RequestDetail } from '#shared/request.ts';

export interface PlacedVerdicts {
  /** About what the client sent. */
  readonly client: readonly Verdict[];
  /** By place of the leg in the detail. */
  readonly byLeg: ReadonlyMap<number, readonly Verdict[]>;
  /** On a way that no recorded leg went: the leg was held back, or the verdict names no hop. */
  readonly elsewhere: readonly Verdict[];
}

/** Puts every verdict at the newest leg of its hop, on its instance where it names one; none is lost. */
export function placeVerdicts({ legs, verdicts }: Pick<RequestDetail, 'legs' | 'verdicts'>): PlacedVerdicts {
  const client: Verdict[] = [];
  const elsewhere: Verdict[] = [];
  const byLeg = new Map<number, Verdict[]>();
  for (const verdict of verdicts) {
    if (verdict.hop === 'client->proxy') {
      client.push(verdict);
      continue;
    }
    const index = newestLegOf(verdict, legs);
    // A leg that was held back was not sent: an earlier one of its kind must not take the blame.
    if (index === -1 || (verdict.isBlocked === true && legs[index]?.outcome === 'ok')) elsewhere.push(verdict);
    else byLeg.set(index, [...(byLeg.get(index) ?? []), verdict]);
  }
  return { client, byLeg, elsewhere };
}

/** Parameters sent to one instance may be about another (a block reference names its owner): then the hop alone decides. */
function newestLegOf({ hop, instance }: Verdict, legs: readonly LegView[]): number {
  const isOnHop = (leg: LegView): boolean => hop === `proxy->${leg.kind}` || hop === `${leg.kind}->proxy`;
  const onInstance = legs.findLastIndex((leg) => isOnHop(leg) && leg.instance === instance);
  return onInstance === -1 ? legs.findLastIndex(isOnHop) : onInstance;
}

const RANK: Readonly<Record<Severity, number>> = { error: 0, warning: 1, info: 2 };

/** Worst first; of equal ones the earlier hop first. */
export function worstFirst(verdicts: readonly Verdict[]): readonly Verdict[] {
  const at = (hop: Hop | undefined): number => (hop === undefined ? HOPS.length : HOPS.indexOf(hop));
  return verdicts.toSorted((a, b) => RANK[a.severity] - RANK[b.severity] || at(a.hop) - at(b.hop));
}

/** The worst severity among verdicts; undefined without any. */
export function worstOf(verdicts: readonly Verdict[]): Severity | undefined {
  return worstFirst(verdicts)[0]?.severity;
}
