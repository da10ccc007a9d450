/**
 * Watches kv_transfer_params at every hop of every request against the contract of the connector in force. Called on
 * the way, so an implementation looks at keys and small values of the raw text and parses nothing large.
 */
import type { Verdict } from '#shared/findings.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import type { LegFacts } from '../../telemetry/trace.ts';
import type { ClientRequest } from '../client-request.ts';
import type { LegRequest } from '../connectors/connector.ts';
import type { LegHeaders } from '../headers.ts';
import { describeLeg, ProxyError } from '../proxy-error.ts';
import type { RequestMemory } from './request-memory.ts';

/** One per request, so that a hop knows those before it. */
export interface LintContext {
  readonly connector: ConnectorName;
  readonly request: ClientRequest;
  /** The linter's own. */
  memory?: RequestMemory;
}

export interface Linter {
  /** A leg is about to be sent with these headers; `leg.kvTransferParams` is the JSON text it carries, if any. */
  sending(context: LintContext, leg: LegRequest, headers: LegHeaders): readonly Verdict[];
  /** A leg's answer is complete. `facts.kvTransferParams` is the JSON text it carried, if any. */
  answered(context: LintContext, leg: LegRequest, facts: LegFacts): readonly Verdict[];
  /** A leg did not reach its instance: what it names was not used. */
  neverSent?(leg: LegRequest): void;
}

/** For a leg that would kill or hang its engine: 502 with the reason. undefined when none of the verdicts says so. */
export function refuseFatal(leg: LegRequest, verdicts: readonly Verdict[]): ProxyError | undefined {
  const fatal = verdicts.find(({ effect }) => effect !== undefined);
  if (fatal === undefined) return undefined;
  const what = fatal.effect === 'kills' ? 'would kill the engine' : 'would wait in the engine for ever';
  const message = `pdscope held back the ${describeLeg(leg.kind, leg.instance)}: it ${what}. ${fatal.message} ${fatal.nextStep}`;
  return new ProxyError(502, 'blocked_by_linter', message, { leg: leg.kind, instance: leg.instance, isRequestFault: true });
}

const NOTHING: readonly Verdict[] = [];

/** Finds nothing. */
export const NO_LINTER: Linter = { sending: () => NOTHING, answered: () => NOTHING };
