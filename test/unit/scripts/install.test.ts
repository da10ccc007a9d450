import { describe, expect, it } from 'vitest';
import { installReason } from '../../../scripts/lib/install.mjs';
import { tempDir } from './temp-dir.ts';

const lock = (packages: object): string => JSON.stringify({ lockfileVersion: 3, packages: { '': { version: '0.1.0' }, ...packages } });

describe('installReason', () => {
  it('asks for an install on a fresh clone', () => {
    using tree = tempDir();
    tree.write('package-lock.json', lock({}));
    expect(installReason(tree.path)).toBe('node_modules is missing');
  });

  it('is content with what the lockfile says, other platforms left out', () => {
    using tree = tempDir();
    tree.write('package-lock.json', lock({ 'node_modules/a': { version: '1.0.0' }, 'node_modules/a-win32': { version: '1.0.0', optional: true } }));
    tree.write('node_modules/.package-lock.json', lock({ 'node_modules/a': { version: '1.0.0' } }));
    expect(installReason(tree.path)).toBeUndefined();
  });

  it('names the package that is missing or at another version', () => {
    using tree = tempDir();
    tree.write('package-lock.json', lock({ 'node_modules/a': { version: '1.1.0' }, 'node_modules/a/node_modules/@s/b': { version: '2.0.0' } }));
    tree.write('node_modules/.package-lock.json', lock({ 'node_modules/a': { version: '1.0.0' } }));
    expect(installReason(tree.path)).toBe('a is not at 1.1.0');
    tree.write('node_modules/.package-lock.json', lock({ 'node_modules/a': { version: '1.1.0' } }));
    expect(installReason(tree.path)).toBe('@s/b is not at 2.0.0');
  });
});
