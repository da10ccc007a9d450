/** Which findings are listed; the value of the URL's tab, `open` being the default. */
export const WHICH = ['open', 'dismissed', 'all'] as const;
export type Which = (typeof WHICH)[number];

/** In words, for where the filter is read out. */
export const WHICH_WORDS: Readonly<Record<Which, string>> = { open: 'open findings', dismissed: 'findings dismissed or over', all: 'findings open, dismissed or over' };

/** Unknown values list the open ones: links are typed by people. */
export function whichOf(tab: string): Which {
  return WHICH.find((one) => one === tab) ?? 'open';
}
