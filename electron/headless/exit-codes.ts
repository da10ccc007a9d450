/** What the command's exit code says; `pdscope --help` prints this table. */
import { PdscopeError } from '#shared/errors.ts';

export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  portInUse: 3,
} as const;

export const EXIT_CODES_HELP = `Exit codes:
  0    done, or stopped by Ctrl+C or SIGTERM
  1    failed; the reason is on stderr
  2    wrong usage or configuration
  3    a port is taken
  130  ended at once by a second Ctrl+C (143: by a second SIGTERM)`;

/** Also what is wrong with an address or endpoint that was given. */
const USAGE_CODE = /^(?:bad_usage|bad_config|bad_options|remote_control_refused|kv_endpoint_invalid|address_.*|instance_duplicate|instance_name_taken)$/u;

/** The exit code for what a command threw. */
export function exitCodeOf(error: unknown): number {
  if (!(error instanceof PdscopeError)) return EXIT.failure;
  if (error.code === 'port_in_use') return EXIT.portInUse;
  return USAGE_CODE.test(error.code) ? EXIT.usage : EXIT.failure;
}
