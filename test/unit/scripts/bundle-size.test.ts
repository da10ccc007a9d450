import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { initialScripts } from '../../../scripts/lib/bundle-size.mjs';
import { tempDir } from './temp-dir.ts';

describe('initialScripts', () => {
  it('counts the entry and its static imports once, and no lazy chunk', () => {
    using tree = tempDir();
    const sources = { 'assets/index.js': 'a'.repeat(5000), 'assets/react.js': 'b c d e f g', 'assets/lazy.js': 'z' };
    for (const [name, text] of Object.entries(sources)) tree.write(name, text);
    tree.write(
      '.vite/manifest.json',
      JSON.stringify({
        'index.html': { file: 'assets/index.js', isEntry: true, imports: ['_react.js', '_shared.js'], dynamicImports: ['lazy.tsx'] },
        '_react.js': { file: 'assets/react.js' },
        '_shared.js': { file: 'assets/react.js', imports: ['_react.js'] },
        'lazy.tsx': { file: 'assets/lazy.js', isDynamicEntry: true },
      }),
    );
    const found = initialScripts(tree.path);
    expect(found.map(({ file }) => file).sort()).toEqual(['assets/index.js', 'assets/react.js']);
    const index = found.find(({ file }) => file === 'assets/index.js');
    expect(index?.gzipBytes).toBe(gzipSync(sources['assets/index.js']).length);
  });

  it('refuses a manifest without an entry', () => {
    using tree = tempDir();
    tree.write('.vite/manifest.json', '{}');
    expect(() => initialScripts(tree.path)).toThrow(/no entry/);
  });
});
