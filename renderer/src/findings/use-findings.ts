/**
 * The findings, asked for again when the engine says that they changed: at most once a second while the page is visible,
 * because under load every request may add to one.
 */
import { useEffect, useRef, useState } from 'react';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { Finding, FindingsPage } from '#shared/findings.ts';
import { useEngineSelector } from '../stores/engine-context.tsx';
import { ThrottledLoader } from '../transport/throttled-loader.ts';
import { useConnection, useTransport } from '../transport/transport-context.tsx';

const LEAST_INTERVAL_MS = 1000;

export interface FindingsState {
  /** The newest answer; kept while a later one fails. */
  readonly page: FindingsPage | undefined;
  /** Why the newest attempt failed. */
  readonly error: PdscopeError | undefined;
}

/** @param withDismissed Also those that a person dismissed. */
export function useFindings(withDismissed: boolean): FindingsState {
  const transport = useTransport();
  const isOpen = useConnection().phase === 'open';
  const revision = useEngineSelector((engine) => engine?.findings.revision);
  const [state, setState] = useState<FindingsState>({ page: undefined, error: undefined });
  const loader = useRef<ThrottledLoader<FindingsPage>>(undefined);

  useEffect(() => {
    if (!isOpen) return undefined;
    const current = new ThrottledLoader({
      load: () => transport.call('findings.list', { all: withDismissed }),
      onValue: (page) => setState({ page, error: undefined }),
      onError: (cause) => {
        const error = cause instanceof PdscopeError ? cause : new PdscopeError('unexpected', errorMessage(cause), { cause });
        setState((before) => ({ page: before.page, error }));
      },
      intervalMs: LEAST_INTERVAL_MS,
    });
    loader.current = current;
    const onVisible = (): void => {
      if (!document.hidden) current.poke();
    };
    onVisible();
    document.addEventListener('visibilitychange', onVisible);
    return () => {
      document.removeEventListener('visibilitychange', onVisible);
      current.close();
    };
  }, [transport, withDismissed, isOpen]);

  useEffect(() => {
    if (revision !== undefined && !document.hidden) loader.current?.poke();
  }, [revision]);

  return state;
}

const ORDER = { error: 0, warning: 1, info: 2 } as const;

/** Worst first, then what began last: a finding that is seen again and again stays where it is. */
export function inOrder(findings: readonly Finding[]): readonly Finding[] {
  return findings.toSorted((a, b) => ORDER[a.severity] - ORDER[b.severity] || b.firstAtUnixMs - a.firstAtUnixMs || a.id.localeCompare(b.id));
}
