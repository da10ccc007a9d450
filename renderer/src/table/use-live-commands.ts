import { useEffect, useMemo, useRef } from 'react';
import { useCommands, type Command } from '../shell/commands.ts';
import { isOverlayOpen } from './table-commands.ts';

export interface LiveActions {
  readonly togglePause: () => void;
  readonly followNewest: () => void;
}

/** Keys of a list that streams in. `group` heads them in the palette and the `?` sheet. */
export function useLiveCommands(group: string, actions: LiveActions): void {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  const commands = useMemo((): readonly Command[] => {
    const id = `live.${group.toLowerCase()}`;
    const run = (name: keyof LiveActions) => () => {
      if (!isOverlayOpen()) latest.current[name]();
    };
    return [
      { id: `${id}.pause`, title: 'Pause or resume the list', group, hotkey: 'p', run: run('togglePause') },
      { id: `${id}.follow`, title: 'Follow the newest rows', group, hotkey: 'f', run: run('followNewest') },
    ];
  }, [group]);
  useCommands(commands);
}
