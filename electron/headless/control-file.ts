/**
 * How `pdscope call` and `pdscope link` find the pdscope that runs on this machine: a file per control port with its
 * address and API token, readable by its user only. The folder must be the user's own: on a shared /tmp another user
 * could have made it first and would read the token.
 */
import { lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { PdscopeError } from '#shared/errors.ts';

const ControlFileSchema = z.object({ url: z.string(), token: z.string(), pid: z.number().int(), startedAtUnixMs: z.number() });
export type ControlFile = z.infer<typeof ControlFileSchema>;

/** The user's own runtime folder (XDG_RUNTIME_DIR), else one under the system's temporary folder. */
export function controlDir(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const runtimeDir = env['XDG_RUNTIME_DIR'];
  if (runtimeDir !== undefined && runtimeDir !== '') return join(runtimeDir, 'pdscope');
  return join(tmpdir(), `pdscope-${userInfo().uid}`);
}

/** Writes the file. Answers how to remove it. Throws PdscopeError `control_file` when the folder is not safe. */
export async function writeControlFile(dir: string, port: number, content: ControlFile): Promise<() => Promise<void>> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const folder = await lstat(dir);
  const isOwn = process.platform === 'win32' || (folder.uid === userInfo().uid && (folder.mode & 0o077) === 0);
  if (!folder.isDirectory() || !isOwn) {
    throw new PdscopeError('control_file', `${dir} is not a folder of this user alone; pdscope call and link need --control and --token.`);
  }
  const path = join(dir, `${port}.json`);
  // Removed first: the mode below is only given to a new file.
  await rm(path, { force: true });
  await writeFile(path, JSON.stringify(content), { mode: 0o600, flag: 'wx' });
  return () => rm(path, { force: true });
}

/** Every pdscope of this user that is alive, the newest first. */
export async function readControlFiles(dir: string): Promise<readonly ControlFile[]> {
  const names = await readdir(dir).catch(() => []);
  const files = await Promise.all(names.filter((name) => /^\d+\.json$/u.test(name)).map((name) => readOne(join(dir, name))));
  return files
    .filter((file): file is ControlFile => file !== undefined && isAlive(file.pid))
    .sort((a, b) => b.startedAtUnixMs - a.startedAtUnixMs);
}

async function readOne(path: string): Promise<ControlFile | undefined> {
  try {
    return ControlFileSchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    // Being written, removed, or left over from another version: not one to talk to.
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
