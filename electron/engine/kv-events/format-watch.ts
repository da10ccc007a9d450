/** The totals of a watch as text and as JSON: the line per second of `--stats`, and the summary at its end. */
import type { MatchStats } from './match-stats.ts';
import type { OddCounts, WatchStats } from './watch-stats.ts';

/** What happened since the line before, and the state of gaps and lag. `12:00:01 52 batches/s 208 events/s ...` */
export function formatStatsLine(now: WatchStats, before: WatchStats | undefined, atUnixMs: number): string {
  const seconds = Math.max(0.001, now.seconds - (before?.seconds ?? 0));
  const rate = (pick: (stats: WatchStats) => number): string => ((pick(now) - (before === undefined ? 0 : pick(before))) / seconds).toFixed(0);
  const parts = [
    `${rate((stats) => stats.batches)} batches/s`,
    `${rate((stats) => stats.events)} events/s`,
    `+${rate((stats) => stats.blocksStored)} -${rate((stats) => stats.blocksRemoved)} blocks/s`,
    `gaps ${now.gaps} (${now.missed} missed, ${now.missedFilled} filled, ${now.missedLost} lost)${now.isReplaying ? ', replaying' : ''}`,
    `lag ${now.lagMs === undefined ? '-' : `${now.lagMs.toFixed(0)} ms`}`,
    `resident ${residentText(now)}`,
    ...(now.dropped > 0 ? [`${now.dropped} dropped here`] : []),
    ...(now.bad > 0 ? [`${now.bad} bad`] : []),
    ...(oddCount(now.odd) > 0 ? [`${oddCount(now.odd)} odd`] : []),
  ];
  return `${new Date(atUnixMs).toISOString().slice(11, 19)} ${parts.join('  ')}`;
}

/** What the filter let through since the line before: behind the totals on a line. `before`: and the seconds in between. */
export function formatMatchPart(now: MatchStats, before: { readonly matching: MatchStats | undefined; readonly seconds: number }): string {
  const rate = (pick: (stats: MatchStats) => number): string => ((pick(now) - (before.matching === undefined ? 0 : pick(before.matching))) / Math.max(0.001, before.seconds)).toFixed(0);
  const notices = now.notices > 0 ? `, ${now.notices} ${now.notices === 1 ? 'notice' : 'notices'}` : '';
  return `matching ${rate(({ events }) => events)} events/s  +${rate(({ blocksStored }) => blocksStored)} -${rate(({ blocksRemoved }) => blocksRemoved)} blocks/s (${now.events} events${notices} in all)`;
}

/** What the filter let through, of everything: a line of the summary. */
export function formatMatches({ filter, events, eventsByKind, notices, blocksStored, blocksRemoved }: MatchStats, { events: all }: WatchStats): string {
  const { stored, removed, cleared, unknown, bad } = eventsByKind;
  const share = all === 0 ? '' : ` (${((100 * events) / all).toFixed(1)} %)`;
  return `matching ${JSON.stringify(filter)}: ${events} of ${all} events${share}, ${stored} stored (${blocksStored} blocks), ${removed} removed (${blocksRemoved} blocks), ${cleared} cleared, ${unknown} of unknown kind, ${bad} not readable, `
    + `and ${notices} ${notices === 1 ? 'notice' : 'notices'}; all other figures are of everything`;
}

/** Lines of the summary, the shortest account last. */
export function formatSummary(stats: WatchStats, matching?: MatchStats): readonly string[] {
  const { stored, removed, cleared, unknown } = stats.eventsByKind;
  const rate = stats.seconds > 0 ? (stats.events / stats.seconds).toFixed(1) : '-';
  const batchRate = stats.seconds > 0 ? (stats.batches / stats.seconds).toFixed(1) : '-';
  return [
    ...(matching === undefined ? [] : [formatMatches(matching, stats)]),
    `events: ${stored} stored (${stats.blocksStored} blocks), ${removed} removed (${stats.blocksRemoved} blocks), ${cleared} cleared, ${unknown} of unknown kind; ${batchRate} batches/s, ${stats.bytes} bytes`,
    `stream: events as ${stats.encoding ?? '-'}, hashes as ${stats.hashForm ?? '-'}, ${stats.replayedBatches} batches by replay, ${stats.duplicates} duplicates, `
      + `${Math.max(0, stats.epochs)} ${stats.epochs === 1 ? 'epoch' : 'epochs'}, lag ${stats.lagMs === undefined ? '-' : `${stats.lagMs.toFixed(0)} ms`}, ${stats.dropped} refused by the own queue`,
    `gaps: ${stats.gaps} found, ${stats.gapsFilled} filled; batches: ${stats.missed} missed, ${stats.missedFilled} filled, ${stats.missedLost} lost`,
    `odd input: ${oddText(stats.odd)}`,
    `cache: ${stats.batches === 0 && !stats.isResidentExact ? 'not known, no batch was received' : `${residentText(stats)} blocks resident; ${hitText(stats)}`}`,
    `${stats.batches} batches, ${stats.events} events in ${stats.seconds.toFixed(1)} s (${rate}/s), ${stats.gaps} ${stats.gaps === 1 ? 'gap' : 'gaps'}, ${stats.missedLost} batches lost, ${stats.bad} bad`,
  ];
}

/** All totals, with the hit estimate where there is one, and in `matching` what a filter let through of them. */
export function summaryJson(stats: WatchStats, matching?: MatchStats): Readonly<Record<string, unknown>> {
  const hitShare = hitShareOf(stats);
  return { kind: 'summary', ...stats, ...(hitShare !== undefined && { hitShareEstimate: hitShare }), ...(matching !== undefined && { matching }) };
}

/** Least share of the blocks that requests went through, as far as stores tell, that was in the cache. Undefined when nothing shows a hit. */
function hitShareOf({ reusedBlocks, branchedBlocks, blocksStored }: WatchStats): number | undefined {
  const hits = reusedBlocks + branchedBlocks;
  return hits === 0 ? undefined : hits / (blocksStored + branchedBlocks);
}

function hitText(stats: WatchStats): string {
  const share = hitShareOf(stats);
  if (share === undefined) return 'no hit seen: engines announce them only for requests with kv_cache_report_mode "full", and no known prefix was branched from';
  return `hits at least ${(100 * share).toFixed(1)} % of ${stats.blocksStored + stats.branchedBlocks} blocks (${stats.reusedBlocks} announced again, ${stats.branchedBlocks} before branches of known prefixes)`;
}

/** What was read and is out of place. Copies of blocks are normal, and not among it. */
function oddCount({ unknownEvents, unknownFields, badTimestamps, unknownRemovals, unknownParents, hashFormChanges, strayBatches }: OddCounts): number {
  return unknownEvents + unknownFields + badTimestamps + unknownRemovals + unknownParents + hashFormChanges + strayBatches;
}

/** Each kind that occurred: counted, and shown as it came where it had a line. */
function oddText(odd: OddCounts): string {
  const kinds: readonly (readonly [number, string, string])[] = [
    [odd.badMessages, 'message', 'not readable'], [odd.badEvents, 'event', 'not readable'], [odd.unknownEvents, 'event', 'of unknown kind'], [odd.unknownFields, 'field', 'unknown'],
    [odd.badTimestamps, 'timestamp', 'not a time'],
    [odd.unknownRemovals, 'removal', 'of blocks not held'], [odd.unknownParents, 'store', 'after a block not held'], [odd.duplicateStores, 'block', 'stored while held already'],
    [odd.hashFormChanges, 'change', 'of the form of hashes'],
    [odd.strayBatches, 'stray', 'left out, with an old number but not of a batch before'],
  ];
  const found = kinds.filter(([count]) => count > 0).map(([count, noun, what]) => `${count} ${noun}${count === 1 ? '' : 's'} ${what}`);
  return found.length === 0 ? 'none' : found.join(', ');
}

function residentText({ residentBlocks, isResidentExact }: WatchStats): string {
  return isResidentExact ? String(residentBlocks) : `about ${residentBlocks}`;
}
