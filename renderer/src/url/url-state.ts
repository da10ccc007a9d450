/**
 * What a link to pdscope carries: view, filter, selection, window, and what was opened or hidden. It lives in the hash, so that it works under `app://`,
 * never reaches a server log, and leaves the query string (the one-time token) alone.
 */
import { VIEWS, type ViewId } from '#shared/views.ts';

export interface UrlState {
  readonly view: ViewId;
  /** Filter expression of the view; '' = none. */
  readonly filter: string;
  /** Highlight expression: colours rows without hiding any; '' = none. */
  readonly highlight: string;
  /** Id of the selected row of the view; '' = none. */
  readonly selection: string;
  /** Open tab of the detail; '' = the view's first. */
  readonly tab: string;
  /** Length of live windows, minutes. */
  readonly windowMin: 5 | 15;
  /** Instance or instances the view is narrowed to; '' = all. */
  readonly scope: string;
  /** Metric of a chart, colouring of a map, order of a tree, medium of blocks; '' = the view's default. */
  readonly metric: string;
  /** Percentile of the latency chart; '' = the view's default. */
  readonly percentile: string;
  /** `table` = the table behind a chart or a map; '' = the drawing. */
  readonly form: string;
  /** Names of what is folded open, separated by commas. */
  readonly open: string;
  /** Names of what is left out, separated by commas: lines of a chart, and folds that stand open by themselves. */
  readonly hidden: string;
  /** What is picked inside the view, the section or the tab: pinned requests, a storm, a block of an event, the beginning of a hash; '' = none, the first, or all. */
  readonly pick: string;
}

export const DEFAULT_URL_STATE: UrlState = {
  view: 'overview',
  filter: '',
  highlight: '',
  selection: '',
  tab: '',
  windowMin: 5,
  scope: '',
  metric: '',
  percentile: '',
  form: '',
  open: '',
  hidden: '',
  pick: '',
};

const TEXT_KEYS = { filter: 'q', highlight: 'hl', selection: 'sel', tab: 'tab', scope: 'in', metric: 'metric', percentile: 'pct', form: 'as', open: 'open', hidden: 'hide', pick: 'pick' } as const;
type TextKey = keyof typeof TEXT_KEYS;
const textKeys = Object.keys(TEXT_KEYS) as TextKey[];

/** Reads `#/<view>?q=...`. Anything unknown falls back to the default, because links are typed by people. */
export function parseHash(hash: string): UrlState {
  const [path, query] = splitOnce(hash.replace(/^#\/?/, ''), '?');
  const params = new URLSearchParams(query);
  const texts = Object.fromEntries(textKeys.map((key) => [key, params.get(TEXT_KEYS[key]) ?? ''])) as Record<TextKey, string>;
  return {
    view: VIEWS.find((view) => view === path) ?? DEFAULT_URL_STATE.view,
    ...texts,
    windowMin: params.get('win') === '15' ? 15 : 5,
  };
}

/** Writes only what differs from the default, so links stay short. */
export function formatHash(state: UrlState): string {
  const params = new URLSearchParams();
  for (const key of textKeys) {
    if (state[key] !== '') params.set(TEXT_KEYS[key], state[key]);
  }
  if (state.windowMin !== DEFAULT_URL_STATE.windowMin) params.set('win', String(state.windowMin));
  const query = params.toString();
  return `#/${state.view}${query === '' ? '' : `?${query}`}`;
}

/** A view switch takes the window along; filter, selection and tab belong to the view and are remembered for it. */
export function switchView(from: UrlState, view: ViewId, remembered: UrlState | undefined): UrlState {
  return { ...DEFAULT_URL_STATE, ...remembered, view, windowMin: from.windowMin };
}

function splitOnce(text: string, separator: string): [string, string] {
  const index = text.indexOf(separator);
  return index === -1 ? [text, ''] : [text.slice(0, index), text.slice(index + separator.length)];
}
