import { Modal } from '@mantine/core';
import { useMemo, type ReactElement } from 'react';
import { groupCommands, listCommands, useCommandStore } from './commands.ts';
import { KeyHint } from './key-hint.tsx';
import classes from './shell.module.css';

/** Keys of whatever list has the focus: they belong to it and not to the page, so that no command stands for them. */
const LIST_KEYS: readonly (readonly [title: string, keys: readonly string[]])[] = [
  ['Next, previous row', ['arrowdown', 'arrowup']],
  ['First, last row', ['home', 'end']],
  ['A page on, back', ['pagedown', 'pageup']],
  ['To the detail of the row', ['enter']],
  ['Open, close a line of a tree or a finding', ['arrowright', 'arrowleft']],
];

/** `?`: every key that does something here and now. */
export function ShortcutSheet({ isOpen, onClose }: { readonly isOpen: boolean; readonly onClose: () => void }): ReactElement {
  const sources = useCommandStore((state) => state.sources);
  const groups = useMemo(() => groupCommands(listCommands(sources).filter((command) => command.hotkey !== undefined)), [sources]);

  return (
    <Modal opened={isOpen} onClose={onClose} title="Keyboard" size="lg" closeButtonProps={{ 'aria-label': 'Close' }}>
      <div className={classes.sheet}>
        {groups.map(([group, commands]) => (
          <KeyGroup key={group} title={group} rows={commands.map(({ title, hotkey = '' }) => [title, [hotkey]])} />
        ))}
        <KeyGroup title="In a list" rows={LIST_KEYS} />
      </div>
    </Modal>
  );
}

function KeyGroup({ title, rows }: { readonly title: string; readonly rows: typeof LIST_KEYS }): ReactElement {
  return (
    <section>
      <h3 className={classes.sheetGroup}>{title}</h3>
      <dl className={classes.sheetList}>
        {rows.map(([what, keys]) => (
          <div key={`${what} ${keys.join(' ')}`} className={classes.sheetRow}>
            <dt>{what}</dt>
            <dd>{keys.map((hotkey) => <KeyHint key={hotkey} hotkey={hotkey} />)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
