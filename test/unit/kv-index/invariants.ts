/** Checks of the index's own books: everything counted or linked is recomputed from the columns. */
import { expect } from 'vitest';
import type { KvIndex } from '#engine/kv-index/kv-index.ts';
import { ROOT } from '#engine/kv-index/node-table.ts';
import { Probe } from '#engine/kv-index/probe.ts';

export function checkBooks(index: KvIndex): void {
  const problems: string[] = [];
  // One expectation at the end: there are thousands of checks in a run.
  const check = (isRight: boolean, problem: string): void => {
    if (!isRight) problems.push(problem);
  };
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
    check(nodes.firstHolding(node) !== 0 || nodes.firstChild(node) !== 0, `node ${node} has no reason to live`);
    check(nodes.isPlaced(node) === (nodes.isKnown(node) && nodes.isPlaced(nodes.parentOf(node))), `node ${node} is placed as its parent is not`);
    check(!nodes.isKnown(node) || nodes.findEqual(nodes.parentOf(node), node, scratch) === node, `node ${node} is not the only child of its content`);
    check(hasTop(index, node), `node ${node} is its own ancestor`);
    check(children(index, node).length === nodes.childCount(node), `node ${node} miscounts its children`);
    for (const child of children(index, node)) check(nodes.parentOf(child) === node, `node ${child} has another parent`);
    for (let slot = nodes.firstHolding(node); slot !== 0; slot = holdings.nextOfNode(slot)) {
      slots += 1;
      check(holdings.nodeOf(slot) === node, `slot ${slot} hangs on another node`);
      const number = holdings.residencyOf(slot);
      slotCounts.set(number, (slotCounts.get(number) ?? 0) + 1);
      check(holdings.find(number, holdings.highOf(slot), holdings.lowOf(slot)) === slot, `slot ${slot} is not found by its hash`);
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
    const counted = [eraCounts.get(era.id) ?? 0, eraUnplaced.get(era.id) ?? 0, slotCounts.get(residency.number) ?? 0];
    check(counted.join() === [era.count, era.unplaced, residency.slots].join(), `residency ${residency.number} miscounts ${counted.join()}`);
    check(Array.from(holdings.slotsOf(era)).filter((slot) => holdings.isLive(slot)).length === era.count, `era ${era.id} lists other slots than it counts`);
  }
  check(children(index, ROOT).length === nodes.childCount(ROOT), 'the root miscounts its children');
  expect(problems).toEqual([]);
}

function children(index: KvIndex, node: number): number[] {
  const { nodes } = index.graph;
  const found: number[] = [];
  for (let child = nodes.firstChild(node); child !== 0; child = nodes.nextSibling(child)) found.push(child);
  return found;
}

/** Whether the way up ends. */
function hasTop(index: KvIndex, start: number): boolean {
  const { nodes } = index.graph;
  let node = start;
  for (let step = 0; step <= nodes.size && node !== ROOT; step += 1) node = nodes.parentOf(node);
  return node === ROOT;
}
