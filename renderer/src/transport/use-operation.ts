import { useCallback, useEffect, useRef, useState } from 'react';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { OperationInput, OperationName, OperationOutputs } from '#shared/operations.ts';
import { useTransport } from './transport-context.tsx';

export interface Operation<N extends OperationName> {
  /** Runs it. Never rejects: answers `undefined` on failure, with the reason in `error`. The last call wins. */
  readonly run: (input: OperationInput<N>) => Promise<OperationOutputs[N] | undefined>;
  readonly isRunning: boolean;
  /** The engine's own words; shown verbatim. */
  readonly error: PdscopeError | undefined;
  readonly value: OperationOutputs[N] | undefined;
  readonly reset: () => void;
}

interface OperationState<N extends OperationName> {
  readonly isRunning: boolean;
  readonly error: PdscopeError | undefined;
  readonly value: OperationOutputs[N] | undefined;
}

/** One operation of the registry, as a button or form needs it. */
export function useOperation<N extends OperationName>(name: N): Operation<N> {
  const transport = useTransport();
  const [state, setState] = useState<OperationState<N>>({ isRunning: false, error: undefined, value: undefined });
  const latest = useRef(0);

  useEffect(
    () => () => {
      latest.current = -1;
    },
    [],
  );

  const run = useCallback(
    async (input: OperationInput<N>) => {
      latest.current = Math.max(latest.current, 0) + 1;
      const ticket = latest.current;
      setState((before) => ({ ...before, isRunning: true, error: undefined }));
      try {
        const value = await transport.call(name, input);
        if (ticket === latest.current) setState({ isRunning: false, error: undefined, value });
        return value;
      } catch (cause) {
        const error = cause instanceof PdscopeError ? cause : new PdscopeError('unexpected', errorMessage(cause), { cause });
        if (ticket === latest.current) setState({ isRunning: false, error, value: undefined });
        return undefined;
      }
    },
    [transport, name],
  );

  const reset = useCallback(() => {
    latest.current += 1;
    setState({ isRunning: false, error: undefined, value: undefined });
  }, []);

  return { run, reset, ...state };
}
