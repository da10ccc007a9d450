import { useEffect, useMemo, useRef } from 'react';
import type { FindingGroup } from '../../findings/finding-groups.ts';
import { useCommands, type Command } from '../../shell/commands.ts';
import { isOverlayOpen } from '../../table/table-commands.ts';
import { useDismissal } from './use-dismissal.ts';

/** The view's own key: dismisses what is selected, or brings it back. */
export function useFindingCommands(selected: FindingGroup | undefined): void {
  const { toggle } = useDismissal();
  const latest = useRef(selected);
  useEffect(() => {
    latest.current = selected;
  });
  const commands = useMemo(
    (): readonly Command[] => [
      {
        id: 'findings.dismiss',
        title: 'Dismiss the selected finding, or bring it back',
        group: 'Findings',
        hotkey: 'd',
        run: () => {
          if (latest.current !== undefined && !isOverlayOpen()) void toggle(latest.current);
        },
      },
    ],
    [toggle],
  );
  useCommands(commands);
}
