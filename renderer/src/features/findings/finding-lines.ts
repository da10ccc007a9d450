/** The list's lines: a group, and its places under it while it is open. Pure. */
import type { Finding } from '#shared/findings.ts';
import { groupOf, type FindingGroup } from '../../findings/finding-groups.ts';

export interface FindingLine {
  /** What selecting it puts into the URL. */
  readonly id: string;
  /** All places of a diagnosis, or the one place that this line is about. */
  readonly group: FindingGroup;
  /** `single`: a diagnosis with one place. */
  readonly kind: 'group' | 'place' | 'single';
  readonly isOpen: boolean;
}

/** `isOpen` is asked by the group's code. */
export function findingLines(groups: readonly FindingGroup[], isOpen: (code: string) => boolean): readonly FindingLine[] {
  return groups.flatMap((group): readonly FindingLine[] => {
    if (group.places.length === 1) return [{ id: group.id, group, kind: 'single', isOpen: false }];
    const open = isOpen(group.code);
    return [{ id: group.id, group, kind: 'group', isOpen: open }, ...(open ? group.places.map(placeLine) : [])];
  });
}

function placeLine(place: Finding): FindingLine {
  return { id: place.id, group: groupOf([place]), kind: 'place', isOpen: false };
}
