import { useMantineColorScheme } from '@mantine/core';
import type { ReactElement } from 'react';
import classes from './shell.module.css';

const NEXT = { auto: 'light', light: 'dark', dark: 'auto' } as const;
const WORD = { auto: 'system', light: 'light', dark: 'dark' } as const;

/** Steps through system, light and dark. */
export function ThemeSwitch(): ReactElement {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <button
      type="button"
      className={classes.quietButton}
      onClick={() => setColorScheme(NEXT[colorScheme])}
      title={`Switch to ${WORD[NEXT[colorScheme]]}`}
    >
      theme: {WORD[colorScheme]}
    </button>
  );
}
