import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadWindowState, MIN_SIZE, placeWindow, saveWindowState } from '../../../electron/main/window-state.ts';

const screen = { x: 0, y: 0, width: 1920, height: 1040 };
const right = { x: 1920, y: -200, width: 2560, height: 1400 };
const at = (x: number, y: number, width = 1200, height = 800) => ({ bounds: { x, y, width, height }, isMaximized: false });

describe('placeWindow', () => {
  it('centres a default window the first time', () => {
    expect(placeWindow(undefined, [screen])).toEqual({ width: 1440, height: 900, isMaximized: false });
  });

  it('puts it where it was, on any screen', () => {
    expect(placeWindow(at(100, 50), [screen])).toEqual({ x: 100, y: 50, width: 1200, height: 800, isMaximized: false });
    expect(placeWindow({ ...at(2000, -100), isMaximized: true }, [screen, right])).toEqual({ x: 2000, y: -100, width: 1200, height: 800, isMaximized: true });
  });

  it('centres it, keeping its size, when its screen is gone', () => {
    expect(placeWindow(at(2000, -100), [screen])).toEqual({ width: 1200, height: 800, isMaximized: false });
  });

  it('does not leave it where its title bar cannot be reached', () => {
    expect(placeWindow(at(1900, 50), [screen]).x).toBeUndefined();
    expect(placeWindow(at(100, -30), [screen]).x).toBeUndefined();
    expect(placeWindow(at(100, 1030), [screen]).x).toBeUndefined();
    expect(placeWindow(at(-1000, 50), [screen]).x).toBe(-1000);
  });

  it('fits it to the screen, but never below its least size', () => {
    expect(placeWindow(at(0, 0, 9000, 9000), [screen])).toMatchObject({ width: 1920, height: 1040 });
    expect(placeWindow(at(0, 0, 50, 50), [{ x: 0, y: 0, width: 800, height: 480 }])).toMatchObject(MIN_SIZE);
  });
});

describe('the state file', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'pdscope-window-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('comes back as it was saved, and leaves nothing else behind', async () => {
    const path = join(folder, 'deep', 'window-state.json');
    await saveWindowState(path, at(1, 2));
    expect(await loadWindowState(path)).toEqual(at(1, 2));
    expect(readdirSync(join(folder, 'deep'))).toEqual(['window-state.json']);
  });

  it.each(['', '{"bounds":', 'null', '[]', '{"bounds":{"x":"1","y":0,"width":1,"height":1},"isMaximized":false}', '{"bounds":{"x":1e99,"y":0,"width":10,"height":10},"isMaximized":false}'])(
    'ignores a damaged file: %s',
    async (text) => {
      const path = join(folder, 'window-state.json');
      writeFileSync(path, text);
      expect(await loadWindowState(path)).toBeUndefined();
    },
  );

  it('is absent at first', async () => {
    expect(await loadWindowState(join(folder, 'none.json'))).toBeUndefined();
  });
});
