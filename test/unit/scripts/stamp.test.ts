import { rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildReason, takeStamp, writeStamp } from '../../../scripts/lib/stamp.mjs';
import { tempDir, type TempDir } from './temp-dir.ts';

function builtTree(): { readonly tree: TempDir; readonly out: string; readonly source: string } {
  const tree = tempDir();
  const source = tree.write('shared/a.ts', 'export const a = 1;');
  tree.write('renderer/src/b.tsx', 'b');
  tree.write('package.json', '{}');
  for (const output of ['headless/cli.js', 'main/index.js', 'preload/index.cjs', 'renderer/index.html']) tree.write(`out/${output}`, 'x');
  const out = join(tree.path, 'out');
  writeStamp(takeStamp(tree.path), out);
  return { tree, out, source };
}

describe('buildReason', () => {
  it('finds a built tree current', () => {
    const { tree, out } = builtTree();
    using _tree = tree;
    expect(buildReason(tree.path, out)).toBeUndefined();
  });

  it('builds what was never built', () => {
    using tree = tempDir();
    expect(buildReason(tree.path, join(tree.path, 'out'))).toBe('not built yet');
  });

  it('names the file that changed', () => {
    const { tree, out } = builtTree();
    using _tree = tree;
    tree.write('shared/a.ts', 'export const a = 2;');
    // Same size: only the content tells, and only because the mtime moved.
    utimesSync(join(tree.path, 'shared/a.ts'), new Date(), new Date(Date.now() + 5000));
    expect(buildReason(tree.path, out)).toBe('shared/a.ts changed');
  });

  it('does not build for a touched file with the same content', () => {
    const { tree, out, source } = builtTree();
    using _tree = tree;
    utimesSync(source, new Date(), new Date(Date.now() + 5000));
    expect(buildReason(tree.path, out)).toBeUndefined();
  });

  it('sees new and removed files', () => {
    const { tree, out, source } = builtTree();
    using _tree = tree;
    tree.write('electron/new.ts', '');
    expect(buildReason(tree.path, out)).toBe('electron/new.ts is new');
    rmSync(join(tree.path, 'electron/new.ts'));
    rmSync(source);
    expect(buildReason(tree.path, out)).toBe('shared/a.ts was removed');
  });

  it('builds again when an output or the stamp is damaged', () => {
    const { tree, out } = builtTree();
    using _tree = tree;
    rmSync(join(out, 'main/index.js'));
    expect(buildReason(tree.path, out)).toBe('main/index.js is missing');
    tree.write('out/main/index.js', 'x');
    tree.write('out/build-stamp.json', '{"cut');
    expect(buildReason(tree.path, out)).toBe('the build stamp is unreadable');
  });
});
