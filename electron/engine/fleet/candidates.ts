/** Which instances may take a leg of a kind now, and why the others of its role may not. */
import type { LegKind, Role } from '#shared/vocabulary.ts';
import type { Instance } from './instance.ts';
import type { ManagedInstance } from './managed-instance.ts';
import type { Candidates } from './ports.ts';

export function candidatesOf(instances: Iterable<ManagedInstance>, kind: LegKind): Candidates {
  const routable: Instance[] = [];
  const excluded: { instance: Instance; reason: string }[] = [];
  for (const instance of instances) {
    if (!fits(instance.role, kind)) continue;
    const reason = instance.exclusion();
    if (reason === undefined) routable.push(instance);
    else excluded.push({ instance, reason });
  }
  return { routable, excluded };
}

/** Text to tokens and whole requests go to whatever instance generates. */
function fits(role: Role, kind: LegKind): boolean {
  if (kind === 'render' || kind === 'forward') return role !== 'encode';
  return role === kind || (role === 'both' && kind !== 'encode');
}
