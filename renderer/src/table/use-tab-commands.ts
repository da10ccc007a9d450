import { useEffect, useMemo, useRef } from 'react';
import { useCommands, type Command } from '../shell/commands.ts';
import { isOverlayOpen } from './table-commands.ts';

export interface TabActions {
  /** Tabs that can be opened now, in order. */
  readonly tabs: readonly string[];
  readonly current: string;
  readonly onTab: (tab: string) => void;
}

/** `]` and `[`: the next and the previous tab of a view; at the ends they go round. */
export function useTabCommands(group: string, actions: TabActions): void {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  const commands = useMemo((): readonly Command[] => {
    const id = `tabs.${group.toLowerCase()}`;
    const step = (by: number) => () => {
      const { tabs, current, onTab } = latest.current;
      const next = tabs[(tabs.indexOf(current) + by + tabs.length) % tabs.length];
      if (next !== undefined && !isOverlayOpen()) onTab(next);
    };
    return [
      { id: `${id}.next`, title: 'Next tab', group, hotkey: ']', isKeyOnly: true, run: step(1) },
      { id: `${id}.previous`, title: 'Previous tab', group, hotkey: '[', isKeyOnly: true, run: step(-1) },
    ];
  }, [group]);
  useCommands(commands);
}
