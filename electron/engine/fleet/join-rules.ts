/** Who may join: not twice at one address in one role, not under a taken name, not with another model unless forced. */
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import type { ProbeResult } from '#shared/operations.ts';
import type { Role } from '#shared/vocabulary.ts';
import type { Instance } from './instance.ts';
import { modelMismatch } from './model-match.ts';
import type { ProbeFindings } from './probe.ts';

/** @throws PdscopeError `instance_duplicate`, `instance_name_taken`. */
export function refuseTaken(origin: string, spec: InstanceSpec, fleet: readonly Instance[]): void {
  const duplicate = findDuplicate(origin, spec.role, fleet);
  if (duplicate !== undefined) throw new PdscopeError('instance_duplicate', duplicateText(duplicate));
  const namesake = fleet.find((instance) => instance.name === spec.name);
  if (namesake !== undefined) {
    throw new PdscopeError('instance_name_taken', `The name ${namesake.name} is taken by ${namesake.origin}: choose another, or leave it out.`);
  }
}

/** @throws PdscopeError `instance_<failure>` or `model_mismatch`, unless `force` overrides it. */
export function refuseUnfit(findings: ProbeFindings, fleet: readonly Instance[], force: boolean): void {
  if (findings.problem !== undefined && !(findings.canForce && force)) {
    const code = `instance_${(findings.failure ?? 'unreachable').replace('-', '_')}`;
    throw new PdscopeError(code, findings.problem + forceHint(findings.canForce), { retryable: true });
  }
  const mismatch = modelMismatch(findings.models, fleet);
  if (mismatch !== undefined && !force) throw new PdscopeError('model_mismatch', `${findings.url} ${mismatch}${forceHint(true)}`);
}

/** What probing says to a person, with the fleet's own objections. */
export function toProbeResult(findings: ProbeFindings, role: Role, fleet: readonly Instance[]): ProbeResult {
  const { failure: _failure, connectFailure: _connectFailure, isSimulated: _isSimulated, server: _server, ...result } = findings;
  const duplicate = findDuplicate(findings.url, role, fleet);
  if (duplicate !== undefined) return { ...result, problem: duplicateText(duplicate), canForce: false };
  if (result.problem !== undefined) return result;
  const mismatch = modelMismatch(findings.models, fleet);
  return mismatch === undefined ? result : { ...result, problem: `${findings.url} ${mismatch}`, canForce: true };
}

function findDuplicate(origin: string, role: Role, fleet: readonly Instance[]): Instance | undefined {
  return fleet.find((instance) => instance.origin === origin && instance.role === role);
}

function duplicateText(instance: Instance): string {
  return `${instance.origin} is in the fleet already, as ${instance.name} (${instance.role}).`;
}

function forceHint(canForce: boolean): string {
  return canForce ? ' Use force to add it anyway.' : '';
}
