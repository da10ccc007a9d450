/** The totals of a watch as text and as JSON: the line per second of `--stats`, and the summary at its end. */
import type { WatchStats } from './watch-stats.ts';

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
  ];
  return `${new Date(atUnixMs).toISOString().slice(11, 19)} ${parts.join('  ')}`;
}

/** Lines of the summary, the shortest account last. */
export function formatSummary(stats: WatchStats): readonly string[] {
  const { stored, removed, cleared, unknown } = stats.eventsByKind;
  const rate = stats.seconds > 0 ? (stats.events / stats.seconds).toFixed(1) : '-';
  const batchRate = stats.seconds > 0 ? (stats.batches / stats.seconds).toFixed(1) : '-';
  return [
    `events: ${stored} stored (${stats.blocksStored} blocks), ${removed} removed (${stats.blocksRemoved} blocks), ${cleared} cleared, ${unknown} of unknown kind; ${batchRate} batches/s, ${stats.bytes} bytes`,
    `stream: events as ${stats.encoding ?? '-'}, hashes as ${stats.hashForm ?? '-'}, ${stats.replayedBatches} batches by replay, ${stats.duplicates} duplicates, `
      + `${Math.max(0, stats.epochs)} ${stats.epochs === 1 ? 'epoch' : 'epochs'}, lag ${stats.lagMs === undefined ? '-' : `${stats.lagMs.toFixed(0)} ms`}, ${stats.dropped} refused by the own queue`,
    `gaps: ${stats.gaps} found, ${stats.gapsFilled} filled; batches: ${stats.missed} missed, ${stats.missedFilled} filled, ${stats.missedLost} lost`,
    `cache: ${residentText(stats)} blocks resident; ${hitText(stats)}`,
    `${stats.batches} batches, ${stats.events} events in ${stats.seconds.toFixed(1)} s (${rate}/s), ${stats.gaps} gaps, ${stats.missedLost} batches missed, ${stats.bad} bad`,
  ];
}

/** All totals, with the hit estimate where there is one. */
export function summaryJson(stats: WatchStats): Readonly<Record<string, unknown>> {
  const hitShare = hitShareOf(stats);
  return { kind: 'summary', ...stats, ...(hitShare !== undefined && { hitShareEstimate: hitShare }) };
}

/** Share of announced blocks that were resident already. Undefined where the engine did not announce any reuse. */
function hitShareOf({ reusedBlocks, blocksStored }: WatchStats): number | undefined {
  return reusedBlocks === 0 ? undefined : reusedBlocks / blocksStored;
}

function hitText(stats: WatchStats): string {
  const share = hitShareOf(stats);
  if (share === undefined) return 'hits unknown: the engine announces reused blocks only for requests with kv_cache_report_mode "full"';
  return `at least ${(100 * share).toFixed(1)} % of announced blocks were hits (${stats.reusedBlocks} announced again)`;
}

function residentText({ residentBlocks, isResidentExact }: WatchStats): string {
  return isResidentExact ? String(residentBlocks) : `about ${residentBlocks}`;
}
