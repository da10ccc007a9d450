/** Who holds a block, grouped for one line. */
import type { NodeHolder } from '#shared/cache.ts';
import { ROLES, type Role } from '#shared/vocabulary.ts';

export interface HolderGroup {
  readonly instance: string;
  readonly name: string;
  readonly role: Role;
  /** Media other than GPU, upper case, e.g. `CPU`. */
  readonly otherMedia: readonly string[];
  readonly streams: number;
}

/** One entry per instance: prefill before decode, then by name. */
export function groupHolders(holders: readonly NodeHolder[]): readonly HolderGroup[] {
  const byInstance = new Map<string, { readonly holder: NodeHolder; readonly media: Set<string>; readonly streams: Set<string> }>();
  for (const holder of holders) {
    const group = byInstance.get(holder.instance) ?? { holder, media: new Set<string>(), streams: new Set<string>() };
    group.media.add(holder.medium);
    group.streams.add(holder.stream);
    byInstance.set(holder.instance, group);
  }
  return [...byInstance.values()]
    .map(({ holder, media, streams }) => ({
      instance: holder.instance, name: holder.instanceName, role: holder.role,
      otherMedia: media.has('GPU') ? [...media].filter((medium) => medium !== 'GPU') : [...media], streams: streams.size,
    }))
    .sort((a, b) => ROLES.indexOf(a.role) - ROLES.indexOf(b.role) || a.name.localeCompare(b.name, 'en', { numeric: true }));
}
