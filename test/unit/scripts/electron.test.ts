import { describe, expect, it } from 'vitest';
import { findElectron } from '../../../scripts/lib/electron.mjs';
import { tempDir } from './temp-dir.ts';

const display = { DISPLAY: ':0' };

describe('findElectron', () => {
  it('finds a binary that is there, with a display', () => {
    using tree = tempDir();
    tree.write('path.txt', 'electron');
    const binary = tree.write('dist/electron', '', 0o755);
    expect(findElectron({ packageDir: tree.path, env: display, platform: 'linux', uid: 1000 })).toEqual({ path: binary });
    expect(findElectron({ packageDir: tree.path, env: { WAYLAND_DISPLAY: 'wayland-0' }, platform: 'linux', uid: 1000 })).toEqual({ path: binary });
    expect(findElectron({ packageDir: tree.path, env: {}, platform: 'darwin', uid: 501 })).toEqual({ path: binary });
  });

  it('says that the binary was never downloaded', () => {
    using tree = tempDir();
    expect(findElectron({ packageDir: tree.path, env: display, platform: 'linux', uid: 1000 })).toEqual({
      reason: 'the Electron binary is not on this machine',
    });
  });

  it('does not take a file that cannot be executed', () => {
    using tree = tempDir();
    tree.write('path.txt', 'electron');
    tree.write('dist/electron', '', 0o644);
    expect(findElectron({ packageDir: tree.path, env: display, platform: 'linux', uid: 1000 }).path).toBeUndefined();
  });

  it('heeds ELECTRON_OVERRIDE_DIST_PATH', () => {
    using tree = tempDir();
    const binary = tree.write('elsewhere/electron', '', 0o755);
    const env = { ...display, ELECTRON_OVERRIDE_DIST_PATH: `${tree.path}/elsewhere` };
    expect(findElectron({ packageDir: tree.path, env, platform: 'linux', uid: 1000 })).toEqual({ path: binary });
  });

  it('says that there is no display, and that root cannot', () => {
    using tree = tempDir();
    tree.write('path.txt', 'electron');
    tree.write('dist/electron', '', 0o755);
    expect(findElectron({ packageDir: tree.path, env: {}, platform: 'linux', uid: 1000 }).reason).toMatch(/no display/);
    expect(findElectron({ packageDir: tree.path, env: display, platform: 'linux', uid: 0 }).reason).toMatch(/root/);
  });
});
