/** Missed tokens of recent requests by cause, the heaviest first. Pure: records in, a summary out. */
import type { MissCause, MissSummary } from '#shared/cache.ts';
import type { RecordId } from '#shared/ids.ts';
import type { MissBrief } from '../telemetry/kept-record.ts';
import type { DivergencePlace, MissShare } from './kept-report.ts';

/** What a summary reads of a record. */
export interface ExplainedRecord {
  readonly id: RecordId;
  readonly n: number;
  readonly why: MissBrief | undefined;
}

/** A cause, with what its text is made from (cause-names.ts). */
export interface GatheredCause extends MissCause {
  /** All of its divergences are after as many tokens. */
  readonly isOnePlace: boolean;
  /** Its latest divergences. */
  readonly shown: readonly { readonly id: RecordId; readonly n: number; readonly place: DivergencePlace }[];
}

export interface GatheredMisses extends Omit<MissSummary, 'causes'> {
  readonly causes: readonly GatheredCause[];
}

const MAX_CAUSES = 50;
const MAX_REQUESTS = 20;
const MAX_REASONS = 20;
const MAX_EXAMPLES = 3;

interface Group {
  readonly latest: MissShare;
  readonly tokens: number;
  readonly requests: { readonly id: RecordId; readonly n: number }[];
  readonly count: number;
  readonly isOnePlace: boolean;
  readonly shown: GatheredCause['shown'];
}

export interface GatherOptions {
  readonly windowS: number;
  /** Whether a request that was not explained is when it is opened. */
  readonly canOpen: (id: RecordId) => boolean;
}

/** `records`: of the window, oldest first. Causes beyond the 50 heaviest are summed up in one per kind. */
export function gatherMisses(records: Iterable<ExplainedRecord>, { windowS, canOpen }: GatherOptions): GatheredMisses {
  const groups = new Map<string, Group>();
  const unexplained = new Map<string, number>();
  let [requests, left, opened, openable, promptTokens, missedTokens] = [0, 0, 0, 0, 0, 0];
  for (const { id, n, why } of records) {
    if (why?.state !== 'ready') {
      if (why?.isPending !== false) continue;
      left += 1;
      if (canOpen(id)) openable += 1;
      unexplained.set(why.reason, (unexplained.get(why.reason) ?? 0) + 1);
      continue;
    }
    if (why.report.isOpened === true) {
      opened += 1;
      continue;
    }
    requests += 1;
    promptTokens += why.report.promptTokens ?? 0;
    for (const share of why.shares) {
      missedTokens += share.tokens;
      const shown = share.place === undefined ? [] : [{ id, n, place: share.place }];
      add(groups, share.key, { latest: share, tokens: share.tokens, requests: [{ id, n }], count: 1, isOnePlace: true, shown });
    }
  }
  const causes = Array.from(fold(groups), ([key, group]) => toCause(key, group, missedTokens)).sort((a, b) => b.tokens - a.tokens);
  return { windowS, requests, of: requests + opened + left, opened, openable, promptTokens, missedTokens, unexplained: mostFrequent(unexplained), causes };
}

function add(groups: Map<string, Group>, key: string, group: Group): void {
  const known = groups.get(key);
  groups.set(key, known === undefined ? group : {
    latest: group.latest,
    tokens: known.tokens + group.tokens,
    requests: [...group.requests, ...known.requests].slice(0, MAX_REQUESTS),
    count: known.count + group.count,
    isOnePlace: known.isOnePlace && group.isOnePlace && known.latest.place?.token === group.latest.place?.token,
    shown: [...group.shown, ...known.shown].slice(0, MAX_EXAMPLES),
  });
}

/** Many small divergences are one cause: prompts that differ, each in its own place. */
function fold(groups: ReadonlyMap<string, Group>): ReadonlyMap<string, Group> {
  if (groups.size <= MAX_CAUSES) return groups;
  const ordered = Array.from(groups).sort((a, b) => b[1].tokens - a[1].tokens);
  const folded = new Map(ordered.slice(0, MAX_CAUSES));
  for (const [, group] of ordered.slice(MAX_CAUSES)) {
    const { kind } = group.latest;
    const latest: MissShare = { key: `${kind} others`, kind, tokens: 0, title: kind === 'diverges' ? 'differs in many other places' : 'other causes' };
    add(folded, latest.key, { ...group, latest, shown: [] });
  }
  return folded;
}

function toCause(key: string, { latest, tokens, requests, count, isOnePlace, shown }: Group, missedTokens: number): GatheredCause {
  return {
    id: key, kind: latest.kind, title: latest.title, tokens, share: missedTokens === 0 ? 0 : tokens / missedTokens,
    requests, requestCount: count, isOnePlace, shown,
  };
}

/** Reasons of one case each are told apart no further than fits. */
function mostFrequent(reasons: ReadonlyMap<string, number>): MissSummary['unexplained'] {
  const ordered = Array.from(reasons, ([reason, requests]) => ({ reason, requests })).sort((a, b) => b.requests - a.requests);
  const rest = ordered.slice(MAX_REASONS).reduce((sum, { requests }) => sum + requests, 0);
  return rest === 0 ? ordered : [...ordered.slice(0, MAX_REASONS), { reason: 'other reasons', requests: rest }];
}
