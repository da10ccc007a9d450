import { useEffect, useState } from 'react';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { OperationInput, OperationName, OperationOutputs } from '#shared/operations.ts';
import { useConnection, useTransport } from './transport-context.tsx';

export interface PolledQuery<N extends OperationName> {
  /** The newest answer; kept while a later one fails. */
  readonly value: OperationOutputs[N] | undefined;
  /** Why the newest attempt failed; absent once one succeeds. */
  readonly error: PdscopeError | undefined;
}

/**
 * Asks a query again and again while the component is mounted, the page is visible and the session open. The next
 * question waits for the answer to the last, so a slow engine is asked less often, never more.
 * `input` is compared as JSON.
 */
export function usePolledQuery<N extends OperationName>(name: N, input: OperationInput<N>, everyMs: number): PolledQuery<N> {
  const transport = useTransport();
  const isOpen = useConnection().phase === 'open';
  const inputJson = JSON.stringify(input);
  const [state, setState] = useState<PolledQuery<N>>({ value: undefined, error: undefined });

  useEffect(() => {
    if (!isOpen) return undefined;
    let isStopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (): Promise<void> => {
      if (!document.hidden) {
        try {
          const value = await transport.call(name, JSON.parse(inputJson) as OperationInput<N>);
          if (!isStopped) setState({ value, error: undefined });
        } catch (cause) {
          const error = cause instanceof PdscopeError ? cause : new PdscopeError('unexpected', errorMessage(cause), { cause });
          if (!isStopped) setState((before) => ({ value: before.value, error }));
        }
      }
      if (!isStopped) timer = setTimeout(() => void ask(), everyMs);
    };
    void ask();
    return () => {
      isStopped = true;
      clearTimeout(timer);
    };
  }, [transport, name, inputJson, everyMs, isOpen]);

  return state;
}
