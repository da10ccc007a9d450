/** The parts of the Cache view, in the order of their tabs. */
export const CACHE_SECTIONS = ['hits', 'causes', 'residency', 'tree', 'difference', 'storms'] as const;
export type CacheSection = (typeof CACHE_SECTIONS)[number];

export const SECTION_TITLES: Readonly<Record<CacheSection, string>> = {
  hits: 'Hits', causes: 'Causes', residency: 'Residency', tree: 'Prefix tree', difference: 'P vs D', storms: 'Storms',
};

/** The section of a link's tab; the first one for anything unknown. */
export function sectionOf(tab: string): CacheSection {
  return CACHE_SECTIONS.find((section) => section === tab) ?? CACHE_SECTIONS[0];
}
