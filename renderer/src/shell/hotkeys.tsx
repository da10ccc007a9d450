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
      local: commands.filter((command) => command.isGlobal !== true).flatMap(toItems),
      global: commands.filter((command) => command.isGlobal === true).flatMap(toItems),
    };
  }, [sources]);
  useHotkeys(local, TYPING_TAGS);
  useHotkeys(global, []);
  return undefined;
}

function toItems({ hotkey = '', run }: Command): [string, () => void][] {
  // Whether a sign needs Shift depends on the keyboard's layout, so both are bound.
  return IS_SIGN.test(hotkey) ? [[hotkey, run], [`shift+${hotkey}`, run]] : [[hotkey, run]];
}

/** A single key that is neither letter nor digit, e.g. `?` or `/`. */
const IS_SIGN = /^[^a-z0-9\s]$/i;

const KEY_NAMES: Readonly<Record<string, string>> = {
  mod: isApple() ? '⌘' : 'Ctrl', ctrl: 'Ctrl', shift: 'Shift', alt: 'Alt', escape: 'Esc', enter: 'Enter',
  arrowup: '↑', arrowdown: '↓', arrowleft: '←', arrowright: '→', home: 'Home', end: 'End', slash: '/', space: 'Space',
};

/** The keys of a hotkey as printed on keyboards: `mod+K` -> `Ctrl`, `K`. */
export function keyNames(hotkey: string): readonly string[] {
  return hotkey.split('+').map((part) => KEY_NAMES[part.trim().toLowerCase()] ?? part.trim().toUpperCase());
}

function isApple(): boolean {
  return typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.userAgent);
}
