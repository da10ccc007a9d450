/** What `npm start` does with its arguments, as a pure function. */

/** Commands that print to a terminal: never a window. */
const TERMINAL_COMMANDS = new Set(['sim', 'events', 'help']);
const TERMINAL_FLAGS = new Set(['--help', '-h', '--version', '-V']);

/**
 * @typedef {{ args: string[], wantsWindow: boolean }} StartPlan
 *   `args` for the command line; `wantsWindow` when Electron should be tried first.
 * @param {readonly string[]} argv Arguments after `npm start --`. None means the demo; `--headless` is for the launcher.
 * @returns {StartPlan}
 */
export function planStart(argv) {
  const isHeadless = argv.includes('--headless');
  const given = argv.filter((arg) => arg !== '--headless');
  const [first] = given;
  const isTerminal = (first !== undefined && TERMINAL_COMMANDS.has(first)) || given.some((arg) => TERMINAL_FLAGS.has(arg));
  if (first === undefined) return { args: ['serve', '--demo'], wantsWindow: !isHeadless };
  // `--help` alone asks about pdscope, not about serve.
  if (first.startsWith('-') && !TERMINAL_FLAGS.has(first)) {
    return { args: ['serve', ...given], wantsWindow: !isHeadless && !isTerminal };
  }
  return { args: given, wantsWindow: !isHeadless && !isTerminal && first === 'serve' };
}
