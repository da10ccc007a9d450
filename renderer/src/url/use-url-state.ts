import { useSyncExternalStore } from 'react';
import type { ViewId } from '#shared/views.ts';
import { formatHash, parseHash, switchView, type UrlState } from './url-state.ts';

const listeners = new Set<() => void>();
const rememberedByView = new Map<ViewId, UrlState>();
let cachedHash: string | undefined;
let cachedState: UrlState | undefined;

function current(): UrlState {
  const { hash } = globalThis.location;
  if (cachedState === undefined || hash !== cachedHash) {
    cachedHash = hash;
    cachedState = parseHash(hash);
  }
  return cachedState;
}

function notify(): void {
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  if (listeners.size === 0) {
    globalThis.addEventListener('hashchange', notify);
    globalThis.addEventListener('popstate', notify);
  }
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    globalThis.removeEventListener('hashchange', notify);
    globalThis.removeEventListener('popstate', notify);
  };
}

export interface SetUrlOptions {
  /** `push` makes a step that the Back button undoes; default `replace`, and `push` when the view changes. */
  readonly history?: 'push' | 'replace';
}

export type SetUrlState = (change: Partial<UrlState>, options?: SetUrlOptions) => void;

/** Changes the URL. A change of `view` first restores what that view last had, then applies the rest of `change`. */
export const setUrlState: SetUrlState = (change, options = {}) => {
  const before = current();
  rememberedByView.set(before.view, before);
  const isSwitch = change.view !== undefined && change.view !== before.view;
  const base = isSwitch && change.view !== undefined ? switchView(before, change.view, rememberedByView.get(change.view)) : before;
  const hash = formatHash({ ...base, ...change });
  if (hash === globalThis.location.hash) return;
  const history = options.history ?? (isSwitch ? 'push' : 'replace');
  if (history === 'push') globalThis.history.pushState(undefined, '', hash);
  else globalThis.history.replaceState(undefined, '', hash);
  notify();
};

/** The shareable part of what is on screen, and the way to change it. */
export function useUrlState(): readonly [UrlState, SetUrlState] {
  const state = useSyncExternalStore(subscribe, current);
  return [state, setUrlState] as const;
}
