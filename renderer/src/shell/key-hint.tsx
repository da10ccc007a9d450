import { Kbd } from '@mantine/core';
import type { ReactElement } from 'react';
import { keyNames } from './hotkeys.tsx';
import classes from './shell.module.css';

/** A hotkey as key caps. */
export function KeyHint({ hotkey }: { readonly hotkey: string }): ReactElement {
  return (
    <span className={classes.keys}>
      {keyNames(hotkey).map((name) => (
        <Kbd key={name} size="xs">
          {name}
        </Kbd>
      ))}
    </span>
  );
}
