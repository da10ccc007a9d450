/**
 * Which place in the document each row on screen takes. A row keeps its place while it is on screen; a new one gets a
 * place that was left, whose elements are then filled anew instead of being thrown away and made again: in a flood every
 * row on screen is another one several times a second.
 */
export type RowSlots = ReadonlyMap<string, number>;

export const NO_SLOTS: RowSlots = new Map();

/** Places for `ids`, which must be distinct; places of `before` that are left go to new rows first. */
export function assignSlots(before: RowSlots, ids: readonly string[]): RowSlots {
  const slots = new Map<string, number>();
  const taken = new Set<number>();
  for (const id of ids) {
    const slot = before.get(id);
    if (slot === undefined) continue;
    slots.set(id, slot);
    taken.add(slot);
  }
  let next = 0;
  for (const id of ids) {
    if (slots.has(id)) continue;
    while (taken.has(next)) next += 1;
    slots.set(id, next);
    next += 1;
  }
  return slots;
}
