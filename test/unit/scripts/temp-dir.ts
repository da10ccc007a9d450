import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A folder that goes away at the end of the block (`using`). */
export interface TempDir extends Disposable {
  readonly path: string;
  /** Writes a file below the folder and answers its absolute path. */
  write(name: string, content: string, mode?: number): string;
}

export function tempDir(): TempDir {
  const path = mkdtempSync(join(tmpdir(), 'pdscope-test-'));
  return {
    path,
    write(name, content, mode = 0o644) {
      const file = join(path, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content, { mode });
      return file;
    },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}
