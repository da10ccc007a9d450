/** The palette of tokens.css against WCAG 2.1: text 4.5 to 1 (1.4.3), marks and bars 3 to 1 (1.4.11), in both themes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const css = readFileSync(join(import.meta.dirname, '../../../renderer/src/theme/tokens.css'), 'utf8');

function colors(block: string): ReadonlyMap<string, string> {
  return new Map([...block.matchAll(/--pd-([\w-]+):\s*(#[0-9a-f]{6});/giu)].map((match) => [match[1] ?? '', match[2] ?? '']));
}
const THEMES = {
  dark: colors(css.slice(0, css.indexOf("data-mantine-color-scheme='light'"))),
  light: colors(css.slice(css.indexOf("data-mantine-color-scheme='light'"), css.indexOf('@media'))),
} as const;

/** Relative luminance, WCAG 2.1. */
function luminance(hex: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

const SURFACES = ['bg', 'bg-raised', 'bg-hover', 'bg-selected'];
const TEXTS = ['text', 'text-dim', 'accent-text', 'warning', 'error'];
const MARKS = [
  'role-encode', 'role-prefill', 'role-decode', 'role-both', 'leg-render', 'leg-forward', 'phase-proxy', 'phase-encode', 'phase-handoff', 'phase-kv-wait',
  'phase-decode', 'phase-unattributed',
];
/** Bars that have their name written into them. */
const WRITTEN_ON = ['phase-proxy', 'leg-render', 'leg-forward', 'phase-compute', 'phase-handoff', 'phase-kv-wait', 'phase-first-step', 'phase-decode'];

describe.each(['dark', 'light'] as const)('the %s theme', (theme) => {
  const color = (name: string): string => THEMES[theme].get(name) ?? `no --pd-${name}`;
  const below = (names: readonly string[], grounds: readonly string[], least: number): readonly string[] =>
    grounds.flatMap((ground) =>
      names.filter((name) => !(contrast(color(name), color(ground)) >= least)).map((name) => `${name} on ${ground}: ${contrast(color(name), color(ground)).toFixed(2)}`),
    );

  it('keeps text readable on every surface', () => {
    expect(below(TEXTS, SURFACES, 4.5)).toEqual([]);
  });
  it('keeps marks of roles, legs and phases visible on the page', () => {
    expect(below(MARKS, ['bg'], 3)).toEqual([]);
  });
  it('keeps what is written into a bar readable', () => {
    expect(below(['on-phase'], WRITTEN_ON, 4.5)).toEqual([]);
  });
  it('tells legs apart', () => {
    const legs = ['role-encode', 'role-prefill', 'role-decode', 'leg-render', 'leg-forward'].map(color);
    expect(new Set(legs).size).toBe(legs.length);
  });
});
