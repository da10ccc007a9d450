import { useHotkeys, type HotkeyItem } from '@mantine/hooks';
import { useMemo } from 'react';
import { listCommands, useCommandStore, type Command } from './commands.ts';

/** Inputs in which no text is typed: a letter pressed on them is meant for the page. */
const NOT_TYPED = new Set(['radio', 'checkbox', 'button', 'submit', 'reset', 'range', 'color', 'file']);

/** True where letters go into a field, or choose an option. */
function isTyping(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return !NOT_TYPED.has(target.type);
  return target instanceof HTMLElement && (target.tagName === 'TEXTAREA' || target.tagName === 'SELECT' || target.isContentEditable);
}

/** Binds the hotkeys of all registered commands. Mounted once, renders nothing. */
export function HotkeyBinder(): undefined {
  const sources = useCommandStore((state) => state.sources);
  const items = useMemo(() => listCommands(sources).flatMap(toItems), [sources]);
  useHotkeys(items, [], true);
  return undefined;
}

function toItems({ hotkey, isGlobal, run }: Command): HotkeyItem[] {
  if (hotkey === undefined) return [];
  const onKey = (event: KeyboardEvent): void => {
    if (isGlobal !== true && isTyping(event.target)) return;
    event.preventDefault();
    run();
  };
  // Whether a sign needs Shift depends on the keyboard's layout, so both are bound.
  const keys = IS_SIGN.test(hotkey) ? [hotkey, `shift+${hotkey}`] : [hotkey];
  return keys.map((key) => [key, onKey, { preventDefault: false }]);
}

/** A single key that is neither letter nor digit, e.g. `?` or `/`. */
const IS_SIGN = /^[^a-z0-9\s]$/i;

const KEY_NAMES: Readonly<Record<string, string>> = {
  mod: isApple() ? '⌘' : 'Ctrl', ctrl: 'Ctrl', shift: 'Shift', alt: 'Alt', escape: 'Esc', enter: 'Enter',
  arrowup: '↑', arrowdown: '↓', arrowleft: '←', arrowright: '→', home: 'Home', end: 'End', pageup: 'PgUp', pagedown: 'PgDn', slash: '/', space: 'Space',
};

/** The keys of a hotkey as printed on keyboards: `mod+K` -> `Ctrl`, `K`. */
export function keyNames(hotkey: string): readonly string[] {
  return hotkey.split('+').map((part) => KEY_NAMES[part.trim().toLowerCase()] ?? part.trim().toUpperCase());
}

function isApple(): boolean {
  return typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.userAgent);
}
