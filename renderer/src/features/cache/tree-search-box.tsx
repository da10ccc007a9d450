import { TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useMemo, useRef, useState, type ReactElement } from 'react';
import { useCommands, type Command } from '../../shell/commands.ts';
import { isOverlayOpen } from '../../table/table-commands.ts';
import classes from './cache.module.css';

/** An instance tokenises what is typed: not on every key. */
const TYPING_MS = 350;

export interface TreeSearchBoxProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** Search by text or token ids; `/` goes into it, Esc empties it. */
export function TreeSearchBox({ value, onChange }: TreeSearchBoxProps): ReactElement {
  const input = useRef<HTMLInputElement>(null);
  const [draft, setDraft] = useState({ of: value, text: value });
  // A link or the Back button changed it: what was being typed is no longer meant.
  if (draft.of !== value) setDraft({ of: value, text: value });
  const settle = useDebouncedCallback((text: string) => {
    setDraft({ of: text, text });
    onChange(text);
  }, TYPING_MS);
  const commands = useMemo((): readonly Command[] => {
    const focus = (): void => {
      if (!isOverlayOpen()) input.current?.focus();
    };
    return [
      { id: 'cache.search', title: 'Search the prefix tree', group: 'Cache', hotkey: '/', run: focus },
      { id: 'cache.find', title: 'Search the prefix tree', group: 'Cache', hotkey: 'mod+F', isGlobal: true, isKeyOnly: true, run: focus },
    ];
  }, []);
  useCommands(commands);
  return (
    <TextInput
      ref={input}
      className={classes.search ?? ''}
      aria-label="Search by text or token ids"
      placeholder="You are a careful …  or  151644, 8948, 198   ( / )"
      value={draft.text}
      onChange={(event) => {
        const text = event.currentTarget.value;
        setDraft((before) => ({ ...before, text }));
        settle(text);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter') settle.flush();
        if (event.key !== 'Escape') return;
        event.stopPropagation();
        settle.cancel();
        setDraft({ of: '', text: '' });
        onChange('');
        input.current?.blur();
      }}
    />
  );
}
