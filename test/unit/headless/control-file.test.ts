import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { controlDir, readControlFiles, writeControlFile } from '../../../electron/headless/control-file.ts';
import { findControl } from '../../../electron/headless/control-client.ts';

const content = (startedAtUnixMs: number, pid = process.pid) => ({ url: `http://127.0.0.1:${startedAtUnixMs}`, token: `t${startedAtUnixMs}`, pid, startedAtUnixMs });

describe('control file', () => {
  let base: string;
  let dir: string;
  beforeEach(async () => {
    base = await mkdtemp(join(tmpdir(), 'pdscope-run-'));
    dir = controlDir({ XDG_RUNTIME_DIR: base });
  });
  afterEach(() => rm(base, { recursive: true }));

  it('is readable by its user only, and gone when removed', async () => {
    const remove = await writeControlFile(dir, 7080, content(1));
    expect((await stat(join(dir, '7080.json'))).mode & 0o777).toBe(0o600);
    expect((await stat(dir)).mode & 0o777).toBe(0o700);
    expect(await readControlFiles(dir)).toEqual([content(1)]);
    await remove();
    expect(await readControlFiles(dir)).toEqual([]);
  });

  it('refuses a folder that others can read', async () => {
    await mkdir(dir);
    await chmod(dir, 0o755);
    await expect(writeControlFile(dir, 7080, content(1))).rejects.toMatchObject({ code: 'control_file' });
  });

  it('lists the newest first, without the dead and the unreadable', async () => {
    await writeControlFile(dir, 1, content(1));
    await writeControlFile(dir, 2, content(2));
    await writeControlFile(dir, 3, content(3, 2 ** 22 + 12_345));
    await writeFile(join(dir, '4.json'), '{');
    expect((await readControlFiles(dir)).map(({ token }) => token)).toEqual(['t2', 't1']);
  });

  it('lets call and link find the running one, and its token by address', async () => {
    const env = { XDG_RUNTIME_DIR: base };
    await writeControlFile(dir, 1, content(1));
    await writeControlFile(dir, 2, content(2));
    expect(await findControl({}, env)).toEqual({ url: 'http://127.0.0.1:2', token: 't2' });
    expect(await findControl({ control: '127.0.0.1:1' }, env)).toEqual({ url: 'http://127.0.0.1:1', token: 't1' });
    expect(await findControl({ control: 'http://127.0.0.1:1', token: 'mine' }, env)).toEqual({ url: 'http://127.0.0.1:1', token: 'mine' });
    await expect(findControl({ control: 'http://127.0.0.1:9' }, env)).rejects.toMatchObject({ code: 'bad_usage', message: expect.stringContaining('--token') });
  });

  it('says so when nothing runs', async () => {
    await expect(findControl({}, { XDG_RUNTIME_DIR: base })).rejects.toThrow('No pdscope of this user runs on this machine');
  });
});
