/** What the Mooncake connector concludes about requests and instances. */
import type { Verdict } from '#shared/findings.ts';
import type { Instance } from '../../../fleet/instance.ts';
import type { BootstrapEntry } from './bootstrap-entry.ts';

/** Only FINISHED_LENGTH_CAPPED keeps KV (vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py). */
export function prefillKeptNoKv(instance: Instance, finishReason: string): Verdict {
  return {
    code: 'prefill_kept_no_kv',
    severity: 'warning',
    title: 'The prefill leg ended by stop and kept no KV',
    message: `The prefill leg on ${instance.name} ended by ${finishReason}, not by length, so Mooncake kept no KV; decode was cancelled and computes the prompt itself.`,
    nextStep: 'If it is frequent, look for stop token ids in the generation_config of the model: ignore_eos does not cover them. --generation-config vllm leaves that file out.',
    hop: 'prefill->proxy',
    instance: instance.id,
  };
}

/** vLLM gives a new engine id with every start; decode would wait 480 s for the old one (VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT). */
export function staleEngineId(instance: Instance, old: string, now: string | undefined): Verdict {
  return {
    code: 'prefill_restarted',
    severity: 'warning',
    title: 'Prefill restarted while decode waited for its KV',
    message: `Decode was told engine ${old}; ${instance.name} is now ${now ?? 'not registered at its bootstrap server'}. The pair was cancelled instead of waiting for the engine's timeout.`,
    nextStep: `Find out why ${instance.name} restarted.`,
    hop: 'proxy->decode',
    instance: instance.id,
  };
}

/** Nothing on the wire tells prefill that its KV is no longer wanted. */
export function kvLeftBehind(instance: Instance, why: string): Verdict {
  return {
    code: 'kv_left_behind',
    severity: 'info',
    title: 'Prefill holds KV that nobody will fetch',
    message: `${instance.name} had ended its leg and kept the KV when the decode leg was given up: ${why}`,
    nextStep: 'It frees the blocks after VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT (480 s): lower it if such requests fill the cache of prefill instances.',
    hop: 'proxy->decode',
    instance: instance.id,
  };
}

export function bootstrapUnanswered({ instance, address, problem }: BootstrapEntry): Verdict {
  return {
    code: 'bootstrap_unanswered',
    severity: 'error',
    title: 'A prefill instance has no bootstrap server that answers',
    message: `${instance.name} (${instance.origin}) gets no requests: ${address}/query: ${problem ?? 'no answer'}.`,
    nextStep: 'Start it with kv_connector MooncakeConnector and VLLM_MOONCAKE_BOOTSTRAP_PORT, and give pdscope that port (bootstrapPort of the instance, or of the protocol).',
    instance: instance.id,
  };
}
