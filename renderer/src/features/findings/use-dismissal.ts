import { useCallback } from 'react';
import type { PdscopeError } from '#shared/errors.ts';
import type { FindingGroup } from '../../findings/finding-groups.ts';
import { useOperation } from '../../transport/use-operation.ts';

export interface Dismissal {
  /** Dismisses all open places, or brings all back when none is open. */
  readonly toggle: (group: FindingGroup) => Promise<void>;
  readonly isRunning: boolean;
  readonly error: PdscopeError | undefined;
}

/** Dismissing and its undo, for one finding or all places of a diagnosis. */
export function useDismissal(): Dismissal {
  const dismiss = useOperation('findings.dismiss');
  const restore = useOperation('findings.restore');
  const { run: runDismiss } = dismiss;
  const { run: runRestore } = restore;
  const toggle = useCallback(
    async ({ places, isDismissed }: FindingGroup): Promise<void> => {
      const run = isDismissed ? runRestore : runDismiss;
      for (const { id, isDismissed: isDone } of places) {
        // The first that fails ends it, so that its reason stays on screen.
        if (isDone === isDismissed && (await run({ id })) === undefined) return;
      }
    },
    [runDismiss, runRestore],
  );
  return { toggle, isRunning: dismiss.isRunning || restore.isRunning, error: dismiss.error ?? restore.error };
}
