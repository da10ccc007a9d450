import { useHotkeys } from '@mantine/hooks';
import { useMemo } from 'react';
import { listCommands, useCommandStore, type Command } from './commands.ts';

const TYPING_TAGS = ['INPUT', 'TEXTAREA', 'SELECT'];

/** Binds the hotkeys of all registered commands. Mounted once, renders nothing. */
export function HotkeyBinder(): undefined {
  const sources = useCommandStore((state) => state.sources);
  const { local, global } = useMemo(() => {
    const commands = listCommands(sources).filter((command) => command.hotkey !== undefined);
    return {
      local: commands.filter((command) => command.isGlobal !== true).map(toItem),
      global: commands.filter((command) => command.isGlobal === true).map(toItem),
    };
  }, [sources]);
  useHotkeys(local, TYPING_TAGS);
  useHotkeys(global, []);
  return undefined;
}

function toItem(command: Command): [string, () => void] {
  return [command.hotkey ?? '', command.run];
}

const KEY_NAMES: Readonly<Record<string, string>> = {
  mod: isApple() ? '⌘' : 'Ctrl', ctrl: 'Ctrl', shift: 'Shift', alt: 'Alt', escape: 'Esc', enter: 'Enter',
  arrowup: '↑', arrowdown: '↓', arrowleft: '←', arrowright: '→', home: 'Home', end: 'End', slash: '/', space: 'Space',
};

/** The keys of a hotkey as printed on keyboards: `mod+K` -> `Ctrl`, `K`. Shift is left out where the key implies it. */
export function keyNames(hotkey: string): readonly string[] {
  const parts = hotkey.split('+').map((part) => part.trim().toLowerCase());
  const isImpliedShift = parts.includes('?');
  return parts.filter((part) => !(isImpliedShift && part === 'shift')).map((part) => KEY_NAMES[part] ?? part.toUpperCase());
}

function isApple(): boolean {
  return typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.userAgent);
}
