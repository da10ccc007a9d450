/** What a finding means for the engine, and the finding as text for a chat or a ticket. Pure. */
import type { Finding } from '#shared/findings.ts';
import { formatCount, formatDateTime, formatInteger } from '../ui/format.ts';

/** What the engine would do, with the instance by name; undefined when it takes no harm. */
export function effectWords(finding: Pick<Finding, 'effect' | 'instanceName'>): string | undefined {
  const engine = finding.instanceName ?? 'the engine';
  switch (finding.effect) {
    case 'kills':
      return `${engine} would die of it`;
    case 'hangs':
      return `${engine} would hold the request without an end`;
    default:
      return undefined;
  }
}

/** Whether legs were held back, or what would do it; undefined for findings that no blocking concerns. */
export function blockedWords(finding: Pick<Finding, 'effect' | 'count' | 'blocked'>, isBlocking: boolean): string | undefined {
  if (finding.blocked > 0) {
    return finding.blocked === finding.count
      ? `${finding.blocked === 1 ? 'The leg was' : `All ${formatInteger(finding.blocked)} legs were`} held back; clients got 502 with the reason`
      : `${formatInteger(finding.blocked)} of ${formatInteger(finding.count)} legs were held back; their clients got 502 with the reason`;
  }
  if (finding.effect === undefined) return undefined;
  return isBlocking ? 'No leg was held back: it was seen too late for that' : 'No leg was held back: blocking is switched off';
}

/** `seen 12 times`, `seen once`. */
export function seenWords(count: number): string {
  return count === 1 ? 'seen once' : `seen ${formatCount(count, 'time')}`;
}

/** What a finding that is not open is: `over`, `dismissed`, `dismissed, seen again 3 times`; undefined while it is open. */
export function closedWords(places: readonly Pick<Finding, 'isDismissed' | 'dismissal' | 'overAtUnixMs'>[]): string | undefined {
  if (!places.every(({ isDismissed }) => isDismissed)) return undefined;
  // What a person dismissed stays so when it ends: it may begin again.
  if (places.every(({ dismissal }) => dismissal === undefined)) return 'over';
  const again = places.reduce((sum, { dismissal }) => sum + (dismissal?.seenAgain ?? 0), 0);
  return again === 0 ? 'dismissed' : `dismissed, seen again ${again === 1 ? 'once' : formatCount(again, 'time')}`;
}

/** The finding with all kept cases, for people to paste. */
export function findingText(finding: Finding, isBlocking: boolean): string {
  const about = [finding.instanceName ?? finding.instance, finding.connector].filter((part) => part !== undefined);
  const lines = [
    `${finding.severity.toUpperCase()}: ${finding.title}${about.length === 0 ? '' : ` (${about.join(', ')})`}`,
    `code ${finding.code}, ${seenWords(finding.count)}, first ${formatDateTime(finding.firstAtUnixMs)}, last ${formatDateTime(finding.lastAtUnixMs)}`,
    ...[effectWords(finding), blockedWords(finding, isBlocking)].filter((line) => line !== undefined).map((line) => `${line}.`),
    `Next step: ${finding.nextStep}`,
    ...finding.evidence.map((one) =>
      `- ${formatDateTime(one.atUnixMs)} ${one.hop === undefined ? '' : `${one.hop}: `}${one.message}${one.request === undefined ? '' : ` [${one.request.requestId}]`}`,
    ),
  ];
  return `${lines.join('\n')}\n`;
}
