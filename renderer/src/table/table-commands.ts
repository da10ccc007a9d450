/**
 * Keys of a list-and-detail view, registered as commands of the page: j/k, `/` and Ctrl+F to the filter, Esc one step
 * back, Ctrl+[ to the list and Ctrl+] to the detail. Arrows, Home, End and paging belong to the focused table itself.
 */
import { useEffect, useMemo, useRef } from 'react';
import { useCommands, type Command } from '../shell/commands.ts';
import type { Move } from './selection.ts';

export interface TableActions {
  readonly move: (move: Move) => void;
  readonly focusFilter: () => void;
  readonly focusList: () => void;
  readonly focusDetail: () => void;
  /** One step back: close the detail, give up the selection. */
  readonly escape: () => void;
}

/** True while something lies over the view: its keys are then not ours. */
export function isOverlayOpen(): boolean {
  return document.querySelector('[role="dialog"], [role="alertdialog"], [role="menu"]') !== null;
}

/** Registers the keys while the view is on screen. `group` heads them in the palette and the `?` sheet. */
export function useTableCommands(group: string, actions: TableActions): void {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  const commands = useMemo((): readonly Command[] => {
    const id = `table.${group.toLowerCase()}`;
    const run = (action: (actions: TableActions) => void) => () => {
      if (!isOverlayOpen()) action(latest.current);
    };
    const focusFilter = run((current) => current.focusFilter());
    return [
      { id: `${id}.next`, title: 'Next row', group, hotkey: 'j', isKeyOnly: true, run: run((current) => current.move('next')) },
      { id: `${id}.previous`, title: 'Previous row', group, hotkey: 'k', isKeyOnly: true, run: run((current) => current.move('previous')) },
      { id: `${id}.filter`, title: 'Filter', group, hotkey: '/', run: focusFilter },
      { id: `${id}.find`, title: 'Filter', group, hotkey: 'mod+F', isGlobal: true, isKeyOnly: true, run: focusFilter },
      { id: `${id}.list`, title: 'To the list', group, hotkey: 'mod+[', isGlobal: true, isKeyOnly: true, run: run((current) => current.focusList()) },
      { id: `${id}.detail`, title: 'To the detail', group, hotkey: 'mod+]', isGlobal: true, isKeyOnly: true, run: run((current) => current.focusDetail()) },
      { id: `${id}.escape`, title: 'Give up the selection', group, hotkey: 'Escape', isKeyOnly: true, run: run((current) => current.escape()) },
    ];
  }, [group]);
  useCommands(commands);
}
