import { useEffect, useMemo, useRef } from 'react';
import { useCommands, type Command } from '../../shell/commands.ts';
import { isOverlayOpen } from '../../table/table-commands.ts';

export interface RequestActions {
  readonly togglePause: () => void;
  readonly togglePin: () => void;
  readonly followNewest: () => void;
}

/** The view's own commands and keys. */
export function useRequestCommands(actions: RequestActions): void {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  const commands = useMemo((): readonly Command[] => {
    const run = (name: keyof RequestActions) => () => {
      if (!isOverlayOpen()) latest.current[name]();
    };
    return [
      { id: 'requests.pause', title: 'Pause or resume the list', group: 'Requests', hotkey: 'p', run: run('togglePause') },
      { id: 'requests.pin', title: 'Pin or unpin the selected request', group: 'Requests', hotkey: 'm', run: run('togglePin') },
      { id: 'requests.follow', title: 'Follow the newest requests', group: 'Requests', hotkey: 'f', run: run('followNewest') },
    ];
  }, []);
  useCommands(commands);
}
