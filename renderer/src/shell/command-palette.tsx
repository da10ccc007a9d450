import { Spotlight, type SpotlightActionData, type SpotlightActionGroupData } from '@mantine/spotlight';
import { useMemo, type ReactElement } from 'react';
import { listCommands, useCommandStore } from './commands.ts';
import { KeyHint } from './key-hint.tsx';
import classes from './palette.module.css';

/** Ctrl+K: every command of the page and of the views on screen, with its hotkey. */
export function CommandPalette(): ReactElement {
  const sources = useCommandStore((state) => state.sources);
  const actions = useMemo(() => {
    const groups = new Map<string, SpotlightActionData[]>();
    for (const command of listCommands(sources)) {
      if (command.isKeyOnly === true) continue;
      const group = groups.get(command.group) ?? [];
      group.push({
        id: command.id,
        label: command.title,
        ...(command.description !== undefined && { description: command.description }),
        ...(command.hotkey !== undefined && { rightSection: <KeyHint hotkey={command.hotkey} /> }),
        onClick: command.run,
      });
      groups.set(command.group, group);
    }
    return [...groups].map(([group, items]): SpotlightActionGroupData => ({ group, actions: items }));
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
