import { Modal } from '@mantine/core';
import { useMemo, type ReactElement } from 'react';
import { listCommands, useCommandStore, type Command } from './commands.ts';
import { KeyHint } from './key-hint.tsx';
import classes from './shell.module.css';

/** `?`: every key that does something here and now. */
export function ShortcutSheet({ isOpen, onClose }: { readonly isOpen: boolean; readonly onClose: () => void }): ReactElement {
  const sources = useCommandStore((state) => state.sources);
  const groups = useMemo(() => {
    const byGroup = new Map<string, Command[]>();
    for (const command of listCommands(sources)) {
      if (command.hotkey === undefined) continue;
      byGroup.set(command.group, [...(byGroup.get(command.group) ?? []), command]);
    }
    return [...byGroup];
  }, [sources]);

  return (
    <Modal opened={isOpen} onClose={onClose} title="Keyboard" size="lg" closeButtonProps={{ 'aria-label': 'Close' }}>
      <div className={classes.sheet}>
        {groups.map(([group, commands]) => (
          <section key={group}>
            <h3 className={classes.sheetGroup}>{group}</h3>
            <dl className={classes.sheetList}>
              {commands.map((command) => (
                <div key={command.id} className={classes.sheetRow}>
                  <dt>{command.title}</dt>
                  <dd>{command.hotkey !== undefined && <KeyHint hotkey={command.hotkey} />}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Modal>
  );
}
