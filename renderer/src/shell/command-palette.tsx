import { Spotlight, type SpotlightActionData, type SpotlightActionGroupData } from '@mantine/spotlight';
import { useMemo, type ReactElement } from 'react';
import { groupCommands, listCommands, useCommandStore, type Command } from './commands.ts';
import { KeyHint } from './key-hint.tsx';
import classes from './palette.module.css';

/** Ctrl+K: every command of the page and of the views on screen, with its hotkey. */
export function CommandPalette(): ReactElement {
  const sources = useCommandStore((state) => state.sources);
  const actions = useMemo(() => {
    const groups = groupCommands(listCommands(sources).filter((command) => command.isKeyOnly !== true));
    return groups.map(([group, commands]): SpotlightActionGroupData => ({ group, actions: commands.map(toAction) }));
  }, [sources]);

  return (
    <Spotlight
      actions={actions}
      shortcut={null}
      nothingFound="No command of that name"
      scrollable
      maxHeight={420}
      size={620}
      searchProps={{ placeholder: 'Type a command', 'aria-label': 'Command' }}
      transitionProps={{ duration: 0 }}
      lockScroll={false}
      attributes={{ content: { 'aria-label': 'Command palette' } }}
      overlayProps={{ backgroundOpacity: 0.5, blur: 0 }}
      classNames={{
        content: classes.content ?? '',
        search: classes.search ?? '',
        action: classes.action ?? '',
        actionLabel: classes.actionLabel ?? '',
        actionDescription: classes.actionDescription ?? '',
        actionsGroup: classes.actionsGroup ?? '',
      }}
    />
  );
}

function toAction({ id, title, description, hotkey, run }: Command): SpotlightActionData {
  return {
    id,
    label: title,
    ...(description !== undefined && { description }),
    ...(hotkey !== undefined && { rightSection: <KeyHint hotkey={hotkey} /> }),
    onClick: run,
  };
}
