/** Opens the dashboard for a person who sits at this machine. Failing is no problem: the link is on the terminal. */
import { spawn } from 'node:child_process';
import { isatty } from 'node:tty';
import type { Logger } from '#engine/log.ts';

const OPENERS: Partial<Record<NodeJS.Platform, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
  linux: ['xdg-open'],
};

/** Whether somebody sits here: a terminal, a display, and no ssh session in between. */
export function hasPersonAtScreen(env: Readonly<Record<string, string | undefined>>, platform: NodeJS.Platform, isTerminal: boolean): boolean {
  if (!isTerminal || env['SSH_CONNECTION'] !== undefined || env['CI'] !== undefined) return false;
  return platform !== 'linux' || env['DISPLAY'] !== undefined || env['WAYLAND_DISPLAY'] !== undefined;
}

/** `wanted` undefined: only when somebody sits at this machine. */
export function openBrowser(url: string, wanted: boolean | undefined, logger: Logger): void {
  if (!(wanted ?? hasPersonAtScreen(process.env, process.platform, isatty(1)))) return;
  const opener = OPENERS[process.platform];
  if (opener === undefined) return;
  const [command, ...args] = opener;
  const child = spawn(command, [...args, url], { stdio: 'ignore', detached: true });
  child.on('error', (error) => logger.info({ err: error }, 'no browser could be opened'));
  child.unref();
}
