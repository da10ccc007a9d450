/**
 * The page's command registry. Views register what they can do while they are on screen; the palette, the hotkeys and
 * the `?` sheet are three readings of this one list.
 */
import { useEffect } from 'react';
import { create } from 'zustand';

export interface Command {
  /** Unique, e.g. `view.requests`. A later registration of the same id wins while it lasts. */
  readonly id: string;
  readonly title: string;
  /** Heading in palette and sheet, e.g. `Go to`, `Requests`. */
  readonly group: string;
  readonly description?: string;
  /** In Mantine's notation, e.g. `mod+K`, `j`, `?`. Ignored while typing, unless `isGlobal`. */
  readonly hotkey?: string;
  /** The hotkey works inside text fields too. Default false. */
  readonly isGlobal?: boolean;
  /** Keeps it out of the palette (j, k, Esc): listed in the sheet only. Default false. */
  readonly isKeyOnly?: boolean;
  readonly run: () => void;
}

interface CommandState {
  readonly sources: ReadonlyMap<symbol, readonly Command[]>;
  readonly register: (commands: readonly Command[]) => () => void;
}

export const useCommandStore = create<CommandState>((set) => ({
  sources: new Map(),
  register: (commands) => {
    const source = Symbol('commands');
    set((state) => ({ sources: new Map(state.sources).set(source, commands) }));
    return () => {
      set((state) => {
        const sources = new Map(state.sources);
        sources.delete(source);
        return { sources };
      });
    };
  },
}));

/** Every registered command once, in order of registration. */
export function listCommands(sources: ReadonlyMap<symbol, readonly Command[]>): readonly Command[] {
  const byId = new Map<string, Command>();
  for (const commands of sources.values()) for (const command of commands) byId.set(command.id, command);
  return [...byId.values()];
}

/** Where to go first, what concerns the view on screen next, the rest last: whoever registered when. */
const FIRST_GROUP = 'Go to';
const LAST_GROUPS: readonly string[] = ['General', 'Instances', 'Engine', 'Profiler'];

/** The commands under their headings, in the order of the palette and the sheet. */
export function groupCommands(commands: readonly Command[]): readonly (readonly [group: string, commands: readonly Command[]])[] {
  const byGroup = new Map<string, Command[]>();
  for (const command of commands) byGroup.set(command.group, [...(byGroup.get(command.group) ?? []), command]);
  const rank = (group: string): number => (group === FIRST_GROUP ? -2 : LAST_GROUPS.indexOf(group));
  return [...byGroup].sort(([a], [b]) => rank(a) - rank(b));
}

/** Registers commands while the component is mounted. Memoise the array: a new one registers anew. */
export function useCommands(commands: readonly Command[]): void {
  const register = useCommandStore((state) => state.register);
  useEffect(() => register(commands), [register, commands]);
}
