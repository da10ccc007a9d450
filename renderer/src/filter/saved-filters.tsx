import { Button, Menu } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import { memo, type ReactElement } from 'react';
import classes from './filter.module.css';

export interface SavedFiltersProps {
  /** Names the list in local storage, e.g. `requests`. */
  readonly id: string;
  /** The filter in force; '' = none. */
  readonly current: string;
  /** Filters that come with the view. */
  readonly builtIn: readonly string[];
  /** The plain-language reading of a filter. */
  readonly read: (text: string) => string;
  readonly onPick: (text: string) => void;
}

/** Filters kept in this browser, and the ones that come with the view. */
export const SavedFilters = memo(function SavedFilters({ id, current, builtIn, read, onPick }: SavedFiltersProps): ReactElement {
  const [stored, setStored] = useLocalStorage<readonly string[]>({ key: `pdscope.filters.${id}`, defaultValue: [], getInitialValueInEffect: false });
  const saved = Array.isArray(stored) ? stored.filter((entry) => typeof entry === 'string') : [];
  const isSaved = saved.includes(current);
  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <Button variant="subtle" className={classes.quiet ?? ''}>
          saved
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item disabled={current === '' || isSaved} onClick={() => setStored([...saved, current])}>
          Save {current === '' ? 'the filter' : current}
        </Menu.Item>
        {isSaved && <Menu.Item onClick={() => setStored(saved.filter((entry) => entry !== current))}>Forget {current}</Menu.Item>}
        {saved.length > 0 && <Menu.Label>Saved in this browser</Menu.Label>}
        {saved.map((text) => (
          <Menu.Item key={text} onClick={() => onPick(text)}>
            <span className={classes.optionLabel}>{text}</span> <span className={classes.optionHint}>{read(text)}</span>
          </Menu.Item>
        ))}
        <Menu.Label>Ready-made</Menu.Label>
        {builtIn.map((text) => (
          <Menu.Item key={text} onClick={() => onPick(text)}>
            <span className={classes.optionLabel}>{text}</span> <span className={classes.optionHint}>{read(text)}</span>
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
});
