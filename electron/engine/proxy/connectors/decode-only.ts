/** The verdict on a request whose decode instance computes the prompt itself although the protocol hands KV over. */
import type { Verdict } from '#shared/findings.ts';

/** @param severity `info` when the request itself ruled the handoff out, `warning` when an engine did not deliver. */
export function decodeOnlyVerdict(why: string, severity: 'info' | 'warning'): Verdict {
  return {
    code: severity === 'info' ? 'handoff_not_possible' : 'decode_only',
    severity,
    title: severity === 'info' ? 'The request rules out a handoff' : 'Decode computed the prompt itself',
    message: `This run was decode-only: ${why}.`,
    nextStep:
      severity === 'info'
        ? 'Nothing, unless such requests are frequent: they load decode instances with prefill work.'
        : 'Check that the prefill instance runs with the KV connector of this protocol (--kv-transfer-config), and its log for aborted requests.',
  };
}
