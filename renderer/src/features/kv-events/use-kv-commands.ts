import { useEffect, useMemo, useRef } from 'react';
import { useCommands, type Command } from '../../shell/commands.ts';
import { isOverlayOpen } from '../../table/table-commands.ts';

export interface KvActions {
  readonly togglePause: () => void;
  readonly followNewest: () => void;
}

/** The view's own commands and keys. */
export function useKvCommands(actions: KvActions): void {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  const commands = useMemo((): readonly Command[] => {
    const run = (name: keyof KvActions) => () => {
      if (!isOverlayOpen()) latest.current[name]();
    };
    return [
      { id: 'kv.pause', title: 'Pause or resume the list', group: 'KV events', hotkey: 'p', run: run('togglePause') },
      { id: 'kv.follow', title: 'Follow the newest events', group: 'KV events', hotkey: 'f', run: run('followNewest') },
    ];
  }, []);
  useCommands(commands);
}
