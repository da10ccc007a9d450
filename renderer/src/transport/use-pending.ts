import { useCallback, useEffect, useState } from 'react';

/** After this long without a change of the actual value, it is shown again whatever was wanted, ms. */
const LONGEST_MS = 3000;

export interface Pending<T> {
  /** What the control shows: what was asked for until the engine's state says something new, then that. */
  readonly shown: T;
  readonly want: (value: T) => void;
  /** The engine refused: back to the actual value. */
  readonly giveUp: () => void;
}

/**
 * Keeps a control where the person put it while the change travels to the engine and its next state back; without it a
 * check box would jump back for a quarter of a second.
 */
export function usePending<T extends string | number | boolean>(actual: T): Pending<T> {
  const [pending, setPending] = useState<{ readonly wanted: T; readonly before: T }>();
  // The engine said something new: that is what counts from here on, also when it comes back to the old value later.
  if (pending !== undefined && pending.before !== actual) setPending(undefined);
  const giveUp = useCallback(() => setPending(undefined), []);
  useEffect(() => {
    if (pending === undefined) return undefined;
    const timer = setTimeout(giveUp, LONGEST_MS);
    return () => clearTimeout(timer);
  }, [pending, giveUp]);
  return {
    shown: pending !== undefined && pending.before === actual ? pending.wanted : actual,
    want: (wanted) => setPending({ wanted, before: actual }),
    giveUp,
  };
}
