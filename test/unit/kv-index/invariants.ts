/** Checks of the index's own books: everything counted or linked is recomputed from the columns. */
import { expect } from 'vitest';
import type { KvIndex } from '#engine/kv-index/kv-index.ts';
import { ROOT } from '#engine/kv-index/node-table.ts';
import { Probe } from '#engine/kv-index/probe.ts';

export function checkBooks(index: KvIndex): void {
  const { nodes, holdings, residencies } = index.graph;
  let used = 0;
  let unplaced = 0;
  let slots = 0;
  let live = 0;
  const eraCounts = new Map<number, number>();
  const eraUnplaced = new Map<number, number>();
  const slotCounts = new Map<number, number>();
  const scratch = new Probe();
  for (let node = 1; node <= nodes.highest; node += 1) {
    if (!nodes.isUsed(node)) continue;
    used += 1;
    if (!nodes.isPlaced(node)) unplaced += 1;
    expect(nodes.firstHolding(node) !== 0 || nodes.firstChild(node) !== 0, `node ${node} has a reason to live`).toBe(true);
    expect(nodes.isPlaced(node)).toBe(nodes.isKnown(node) && nodes.isPlaced(nodes.parentOf(node)));
    if (nodes.isKnown(node)) expect(nodes.findEqual(nodes.parentOf(node), node, scratch), `node ${node} is the only child of its content`).toBe(node);
    expect(children(index, node).length).toBe(nodes.childCount(node));
    for (const child of children(index, node)) expect(nodes.parentOf(child)).toBe(node);
    for (let slot = nodes.firstHolding(node); slot !== 0; slot = holdings.nextOfNode(slot)) {
      slots += 1;
      expect(holdings.nodeOf(slot)).toBe(node);
      const number = holdings.residencyOf(slot);
      slotCounts.set(number, (slotCounts.get(number) ?? 0) + 1);
      expect(holdings.find(number, holdings.highOf(slot), holdings.lowOf(slot)), `slot ${slot} is found by its hash`).toBe(slot);
      if (!holdings.isLive(slot)) continue;
      live += 1;
      const era = holdings.eraOf(slot)?.id ?? 0;
      eraCounts.set(era, (eraCounts.get(era) ?? 0) + 1);
      if (!nodes.isPlaced(node)) eraUnplaced.set(era, (eraUnplaced.get(era) ?? 0) + 1);
    }
  }
  expect({ used, unplaced, slots, live }).toEqual({ used: nodes.size, unplaced: nodes.unplaced, slots: holdings.size, live: holdings.live });
  for (const residency of residencies) {
    if (residency === undefined) continue;
    const { era } = residency;
    expect([era.count, era.unplaced, residency.slots]).toEqual([eraCounts.get(era.id) ?? 0, eraUnplaced.get(era.id) ?? 0, slotCounts.get(residency.number) ?? 0]);
    expect(Array.from(holdings.slotsOf(era)).filter((slot) => holdings.isLive(slot)).length).toBe(era.count);
  }
  expect(children(index, ROOT).length).toBe(nodes.childCount(ROOT));
}

function children(index: KvIndex, node: number): number[] {
  const { nodes } = index.graph;
  const found: number[] = [];
  for (let child = nodes.firstChild(node); child !== 0; child = nodes.nextSibling(child)) found.push(child);
  return found;
}
