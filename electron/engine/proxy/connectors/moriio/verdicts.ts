/** What MoRIIO diagnoses, in words: about engines that register, and about requests. */
import type { Verdict } from '#shared/findings.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { Instance } from '../../../fleet/instance.ts';
import type { MoriioRegistration, TransferMode } from './message.ts';

export function modeMismatch({ origin, mode }: MoriioRegistration, inForce: TransferMode, instance: InstanceId | undefined): Verdict {
  return {
    code: 'transfer_mode_mismatch',
    severity: 'error',
    title: 'An instance has another MoRIIO transfer mode',
    message: `${origin} registers with transfer mode ${mode}, but ${inForce} is in force: it gets no requests.`,
    nextStep: `Start all instances with the same kv_connector_extra_config.read_mode (${inForce === 'READ' ? 'true' : 'false'} for ${inForce}), or choose the mode with --moriio-mode.`,
    ...(instance !== undefined && { instance }),
  };
}

export function notTaken({ origin, role }: MoriioRegistration, problem: string): Verdict {
  return {
    code: 'moriio_not_joined',
    severity: 'error',
    title: 'A registered engine cannot join the fleet',
    message: `${origin} registers as a ${role} instance, but cannot join: ${problem}`,
    nextStep: "Correct the engine's http_port or host_ip in kv_connector_extra_config, or the instance that is in its way.",
  };
}

export function tooMany({ origin }: MoriioRegistration, limit: number): Verdict {
  return {
    code: 'moriio_too_many_registrations',
    severity: 'error',
    title: 'More engines register than pdscope keeps',
    message: `${limit} engines have registered; ${origin} and others are ignored.`,
    nextStep: 'Check who sends to the registration port; a cluster of that size needs several proxies.',
  };
}

export function instanceLeft(instance: Instance, reason: string): Verdict {
  return {
    code: 'moriio_instance_left',
    severity: 'warning',
    title: 'A registered instance fell silent and left',
    message: `${instance.name} (${instance.origin}) left the fleet: ${reason}.`,
    nextStep: 'If it was not stopped on purpose, look at its log. It joins again with its next registration.',
    instance: instance.id,
  };
}

export function notAllowed(origin: string, host: string): Verdict {
  return {
    code: 'moriio_not_allowed',
    severity: 'warning',
    title: 'An engine outside the allowed hosts registers',
    message: `${origin} registers, but ${host} is not among the hosts that may: it was ignored.`,
    nextStep: 'If it is one of yours, add its address or network to --moriio-allow. If not, find out who reaches the registration port.',
  };
}

export function p2pNccl(httpAddress: string): Verdict {
  return {
    code: 'p2p_nccl_engine',
    severity: 'error',
    title: 'A P2P-NCCL engine registers at the MoRIIO port',
    message: `${JSON.stringify(httpAddress.slice(0, 80))} sends heartbeats of P2pNcclConnector (its zmq_address does not begin with "host:"), another protocol.`,
    nextStep: 'Start it with kv_connector MoRIIOConnector, or point it at its own proxy. vLLM removed P2pNcclConnector on 2026-06-08.',
  };
}

export function malformedMessage(problem: string): Verdict {
  return {
    code: 'moriio_malformed_message',
    severity: 'warning',
    title: 'Something else than an engine sends to the registration port',
    message: `A message is no MoRIIO registration: ${problem}.`,
    nextStep: 'Check what is configured with this address and port, or whether the engine is newer than this pdscope.',
  };
}

/** One prefill instance served the whole request. @param severity `info` when the request itself ruled the handoff out. */
export function servedWhole(why: string, severity: 'info' | 'warning'): Verdict {
  return {
    code: severity === 'info' ? 'handoff_not_possible' : 'prefill_only',
    severity,
    title: severity === 'info' ? 'The request rules out a handoff' : 'A prefill instance served the whole request',
    message: `One prefill instance computed the prompt and all tokens: ${why}. A MoRIIO decode instance cannot compute a prompt itself.`,
    nextStep:
      severity === 'info'
        ? 'Nothing, unless such requests are frequent: they load prefill instances with decode work.'
        : "Check the prefill instance's log, and that both instances run MoRIIOConnector in the transfer mode shown on Instances.",
  };
}

export function failedAfterHandoff(instance: Instance, reason: string): Verdict {
  return {
    code: 'prefill_failed_after_handoff',
    severity: 'warning',
    title: 'A prefill leg failed after its KV had arrived',
    message: `The decode instance was answering already when the prefill leg failed: ${reason}`,
    nextStep: "The answer is complete. Look at the prefill instance's log if this happens again.",
    hop: 'prefill->proxy',
    instance: instance.id,
  };
}

export function addressMismatch(instance: Instance, reported: string, registered: string): Verdict {
  return {
    code: 'moriio_address_mismatch',
    severity: 'warning',
    title: 'A prefill instance names another transfer address than it registered',
    message: `${instance.name} answered with ${reported}, but is registered with ${registered}; decode was sent to the address of the answer.`,
    nextStep: 'It was probably restarted a moment ago. If it stays, set host_ip in kv_connector_extra_config so that both agree.',
    hop: 'prefill->proxy',
    instance: instance.id,
  };
}
