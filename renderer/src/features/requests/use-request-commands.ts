import { useEffect, useMemo, useRef } from 'react';
import { useCommands, type Command } from '../../shell/commands.ts';
import { isOverlayOpen } from '../../table/table-commands.ts';

export interface RequestActions {
  readonly togglePin: () => void;
}

/** The view's own key, beside those of every live list. */
export function useRequestCommands(actions: RequestActions): void {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  const commands = useMemo(
    (): readonly Command[] => [
      {
        id: 'requests.pin',
        title: 'Pin or unpin the selected request',
        group: 'Requests',
        hotkey: 'm',
        run: () => {
          if (!isOverlayOpen()) latest.current.togglePin();
        },
      },
    ],
    [],
  );
  useCommands(commands);
}
