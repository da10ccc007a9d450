/** Which of the process's arguments are pdscope's own. */

/**
 * Arguments of `serve`. Electron's own come first: the executable, in development the app's folder, and switches of
 * Chromium; the launcher puts `--` between those and pdscope's. None means the demo.
 * @param argv `process.argv`.
 */
export function serveArguments(argv: readonly string[], isPackaged: boolean): readonly string[] {
  const separator = argv.indexOf('--');
  const own = separator === -1 ? argv.slice(isPackaged ? 1 : 2) : argv.slice(separator + 1);
  const args = own[0] === 'serve' ? own.slice(1) : own;
  return args.length === 0 ? ['--demo'] : args;
}
