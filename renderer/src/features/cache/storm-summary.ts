/** Storms of a window by instance: what they cost, and what to do about it. */
import type { EvictionStorm } from '#shared/cache.ts';
import type { InstanceView } from '#shared/instance.ts';
import type { Role } from '#shared/vocabulary.ts';
import { formatCompact, formatCount, formatDuration, formatInteger, formatPercent } from '../../ui/format.ts';

export interface StormedInstance {
  readonly instance: EvictionStorm['instance'];
  readonly name: string;
  /** Absent: it left the fleet. */
  readonly role: Role | undefined;
  readonly storms: number;
  readonly blocks: number;
  readonly tokens: number;
  /** What it was seen by, in words. */
  readonly evidence: string;
}

type Facts = Pick<InstanceView, 'id' | 'role' | 'engine'>;

/** The dearest first. `withinS`: needed again within. */
export function stormedInstances(storms: readonly EvictionStorm[], instances: readonly Facts[], withinS: number): readonly StormedInstance[] {
  const groups = new Map<string, EvictionStorm[]>();
  for (const storm of storms) groups.set(storm.instance, [...(groups.get(storm.instance) ?? []), storm]);
  return [...groups.values()]
    .flatMap((own): readonly StormedInstance[] => {
      const [first] = own;
      if (first === undefined) return [];
      const facts = instances.find(({ id }) => id === first.instance);
      const blocks = own.reduce((sum, storm) => sum + storm.blocks, 0);
      const tokens = own.reduce((sum, storm) => sum + storm.tokens, 0);
      const shortestMs = Math.min(...own.map((storm) => storm.shortestMs));
      const { instance, instanceName: name } = first;
      return [{ instance, name, role: facts?.role, storms: own.length, blocks, tokens, evidence: evidenceOf({ blocks, shortestMs, withinS }, facts) }];
    })
    .toSorted((a, b) => b.tokens - a.tokens);
}

function evidenceOf({ blocks, shortestMs, withinS }: { readonly blocks: number; readonly shortestMs: number; readonly withinS: number }, facts: Facts | undefined): string {
  const { gpuBlocks, kvUsage } = facts?.engine ?? {};
  const size = gpuBlocks === undefined ? '' : `; its cache has ${formatInteger(gpuBlocks)} blocks${kvUsage === undefined ? '' : `, ${formatPercent(kvUsage)} % in use by running requests`}`;
  return `${formatCount(blocks, 'block')} stored again within ${formatDuration(withinS * 1000)} of being evicted, the fastest after ${formatDuration(shortestMs)}${size}`;
}

/** What helps, once for each role: its instances, and what to try. */
export function stormNextSteps(rows: readonly StormedInstance[], instances: readonly Facts[]): readonly { readonly names: string; readonly text: string }[] {
  const roles = new Set(rows.map(({ role }) => role));
  return [...roles].map((role) => {
    const hit = rows.filter((row) => row.role === role);
    const tokens = hit.reduce((sum, row) => sum + row.tokens, 0);
    const again = role === 'decode' ? 'fetched or computed' : 'computed';
    const spread = instances.filter((one) => one.role === role).length < 2 ? '' : 'send prompts with the same beginning to the same instance (policy prefix-aware); ';
    const crowd = role === 'decode' ? 'fewer requests at once (--max-num-seqs); ' : '';
    return {
      names: hit.map(({ name }) => name).join(', '),
      text: `${formatCompact(tokens)} tokens were ${again} twice. Give the cache more room (--gpu-memory-utilization, --kv-cache-dtype fp8); ${spread}${crowd}or keep evicted blocks in a second tier (OffloadingConnector).`,
    };
  });
}
