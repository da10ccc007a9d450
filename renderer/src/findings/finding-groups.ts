/**
 * Findings of one diagnosis gathered: the same trouble on eight instances is one line with eight places. Pure.
 *
 * A group has the worst severity, effect and words of its places, because one place where it is bad is enough; its
 * figures are the sums. A single finding is a group with one place, so that both are drawn by the same code.
 */
import type { Finding, FindingEvidence } from '#shared/findings.ts';
import { inOrder } from './use-findings.ts';

/** Before the code in the selection of a URL: a group, not one finding. */
const PREFIX = 'code:';

export interface FindingGroup extends Pick<Finding, 'code' | 'severity' | 'title' | 'effect' | 'count' | 'blocked' | 'firstAtUnixMs' | 'lastAtUnixMs'> {
  /** Its name in a URL: `code:null_params`, or the finding's own id when it is the only place. */
  readonly id: string;
  /** Worst first; never empty. */
  readonly places: readonly Finding[];
  /** All places are. */
  readonly isDismissed: boolean;
  /** Of the one instance that it is about; absent when there are several, or none. */
  readonly instanceName?: string;
}

/** One case, and where it was seen. */
export interface PlacedEvidence extends FindingEvidence {
  readonly place: Finding;
}

/** One line per code, worst first. */
export function groupFindings(findings: readonly Finding[]): readonly FindingGroup[] {
  const byCode = new Map<string, Finding[]>();
  for (const finding of inOrder(findings)) {
    const places = byCode.get(finding.code);
    if (places === undefined) byCode.set(finding.code, [finding]);
    else places.push(finding);
  }
  return [...byCode.values()].map(groupOf);
}

/** The group of these places, given worst first. @throws TypeError without any. */
export function groupOf(places: readonly Finding[]): FindingGroup {
  const [worst] = places;
  if (worst === undefined) throw new TypeError('a group of findings needs at least one');
  const effect = places.some((place) => place.effect === 'kills') ? 'kills' : places.find((place) => place.effect !== undefined)?.effect;
  const names = new Set(places.map(instanceOf));
  const [name] = names;
  return {
    id: places.length === 1 ? worst.id : `${PREFIX}${worst.code}`,
    code: worst.code,
    severity: worst.severity,
    title: worst.title,
    ...(effect !== undefined && { effect }),
    ...(names.size === 1 && name !== undefined && { instanceName: name }),
    places,
    count: places.reduce((sum, place) => sum + place.count, 0),
    blocked: places.reduce((sum, place) => sum + place.blocked, 0),
    firstAtUnixMs: Math.min(...places.map((place) => place.firstAtUnixMs)),
    lastAtUnixMs: Math.max(...places.map((place) => place.lastAtUnixMs)),
    isDismissed: places.every((place) => place.isDismissed),
  };
}

/** What a selection names: all places of a code, or one finding; undefined when there is none of that name. */
export function findSelected(findings: readonly Finding[], selection: string): FindingGroup | undefined {
  const places = selection.startsWith(PREFIX) ? inOrder(findings).filter((finding) => finding.code === selection.slice(PREFIX.length)) : findings.filter((finding) => finding.id === selection);
  return places.length === 0 ? undefined : groupOf(places);
}

/** Kept cases of all places, newest first. */
export function evidenceOf({ places }: FindingGroup): readonly PlacedEvidence[] {
  return places.flatMap((place) => place.evidence.map((one) => ({ ...one, place }))).sort((a, b) => b.atUnixMs - a.atUnixMs);
}

/** Next steps as the places give them, without repetition; a step that names an instance differs by place. */
export function nextStepsOf({ places }: FindingGroup): readonly string[] {
  return [...new Set(places.map((place) => place.nextStep))];
}

/** `D1 · nixl`; what it is not about is left out. */
export function placeWords(place: Finding): string {
  return [instanceOf(place), place.connector].filter((part) => part !== undefined).join(' · ') || 'the whole fleet';
}

/** Instances in the order of their names, each once: `D0 D1 D2 +5`. */
export function instanceWords(places: readonly Finding[], most: number): string {
  const names = [...new Set(places.map(instanceOf).filter((name) => name !== undefined))].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return names.length <= most ? names.join(' ') : `${names.slice(0, most).join(' ')} +${names.length - most}`;
}

/** Protocols in use when it was seen. */
export function connectorWords(places: readonly Finding[]): string {
  return [...new Set(places.map((place) => place.connector).filter((name) => name !== undefined))].join(', ');
}

function instanceOf({ instanceName, instance }: Finding): string | undefined {
  return instanceName ?? instance;
}
