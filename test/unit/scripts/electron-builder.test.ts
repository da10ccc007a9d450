import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ROOT } from '../../../scripts/lib/paths.mjs';

// electron-builder's own validation, which its command runs first; neither module has a public entry for it.
const require = createRequire(createRequire(join(ROOT, 'package.json')).resolve('electron-builder/package.json'));
const { validateConfiguration } = require('app-builder-lib/out/util/config/config') as {
  validateConfiguration: (config: unknown, logger: unknown) => Promise<void>;
};
const { DebugLogger } = require('builder-util') as { DebugLogger: new (isEnabled: boolean) => unknown };

interface BuilderConfig {
  readonly asar: boolean;
  readonly electronFuses: Readonly<Record<string, boolean>>;
  readonly files: readonly string[];
  readonly linux: { readonly target: readonly string[]; readonly files: readonly string[] };
  readonly mac: { readonly target: readonly string[]; readonly hardenedRuntime: boolean };
  readonly win: { readonly target: readonly string[] };
}

const config = parse(readFileSync(join(ROOT, 'electron-builder.yml'), 'utf8')) as BuilderConfig;

describe('electron-builder.yml', () => {
  it('is valid', async () => {
    await expect(validateConfiguration(config, new DebugLogger(false))).resolves.toBeUndefined();
  });

  it('is really checked: a misspelt key is refused', async () => {
    await expect(validateConfiguration({ ...config, electronFuse: {} }, new DebugLogger(false))).rejects.toThrow(/electronFuse/);
  });

  it('sets every fuse to the safe side', () => {
    expect(config.asar).toBe(true);
    expect(config.electronFuses).toEqual({
      runAsNode: false,
      enableNodeOptionsEnvironmentVariable: false,
      enableNodeCliInspectArguments: false,
      enableCookieEncryption: true,
      enableEmbeddedAsarIntegrityValidation: true,
      onlyLoadAppFromAsar: true,
      grantFileProtocolExtraPrivileges: false,
    });
  });

  it('makes the packages that are promised', () => {
    expect(config.linux.target).toEqual(['AppImage', 'deb']);
    expect(config.mac).toMatchObject({ target: ['dmg'], hardenedRuntime: true });
    expect(config.win.target).toEqual(['nsis']);
  });
});
