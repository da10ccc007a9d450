/**
 * Remembers where the window was. The file is outside data: a monitor may be gone, a disk may be full, a person may
 * have edited it. None of that keeps the window from opening where it can be seen.
 */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Rectangle } from 'electron';
import { z } from 'zod';

const coordinate = z.number().int().min(-100_000).max(100_000);
const length = z.number().int().min(1).max(100_000);

const WindowStateSchema = z.object({
  bounds: z.object({ x: coordinate, y: coordinate, width: length, height: length }),
  isMaximized: z.boolean(),
});

export type WindowState = z.infer<typeof WindowStateSchema>;

/** Where to open: without `x` and `y` the system centres the window. */
export interface Placement {
  readonly x?: number;
  readonly y?: number;
  readonly width: number;
  readonly height: number;
  readonly isMaximized: boolean;
}

export const DEFAULT_SIZE = { width: 1440, height: 900 } as const;
export const MIN_SIZE = { width: 960, height: 600 } as const;

/** How much of the window must be on some screen so that a person can grab it, pixels. */
const VISIBLE_PART = { width: 160, height: 64 } as const;

/** The saved state; undefined when there is none or it is not one of ours. */
export async function loadWindowState(path: string): Promise<WindowState | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch {
    return undefined;
  }
  try {
    const parsed = WindowStateSchema.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/** Writes beside and renames, so that a crash leaves the old file or the new one. */
export async function saveWindowState(path: string, state: WindowState): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.new`;
  await writeFile(temporary, JSON.stringify(state));
  await rename(temporary, path);
}

/**
 * Fits a saved state to the screens there are now.
 * @param workAreas Usable areas of the screens, the primary one first; at least one.
 */
export function placeWindow(saved: WindowState | undefined, workAreas: readonly Rectangle[]): Placement {
  const [primary] = workAreas;
  const bounds = saved?.bounds;
  const screen = bounds && workAreas.find((area) => isReachable(bounds, area));
  const room = screen ?? primary ?? { x: 0, y: 0, ...DEFAULT_SIZE };
  const width = Math.max(MIN_SIZE.width, Math.min(bounds?.width ?? DEFAULT_SIZE.width, room.width));
  const height = Math.max(MIN_SIZE.height, Math.min(bounds?.height ?? DEFAULT_SIZE.height, room.height));
  return {
    ...(bounds && screen && { x: bounds.x, y: bounds.y }),
    width,
    height,
    isMaximized: saved?.isMaximized ?? false,
  };
}

/** Enough of the window's title bar, its top edge, lies on the screen. */
function isReachable(bounds: Rectangle, area: Rectangle): boolean {
  const overlapX = Math.min(bounds.x + bounds.width, area.x + area.width) - Math.max(bounds.x, area.x);
  const isTopInside = bounds.y >= area.y && bounds.y + VISIBLE_PART.height <= area.y + area.height;
  return overlapX >= VISIBLE_PART.width && isTopInside;
}
