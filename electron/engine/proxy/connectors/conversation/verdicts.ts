/** What the multi-turn protocol has to say about a request. */
import type { Verdict } from '#shared/findings.ts';
import { cut } from '../../../cut-text.ts';
import type { Instance } from '../../../fleet/instance.ts';
import type { ProxyError } from '../../proxy-error.ts';
import type { Refusal } from './turn.ts';

type Words = Pick<Verdict, 'severity' | 'title' | 'nextStep'>;

const REFUSALS: Readonly<Record<Refusal['code'], Words>> = {
  conversation_edited: {
    severity: 'info',
    title: 'A conversation went on from another history',
    nextStep: 'Nothing, when the history was edited or two threads share one conversation id. Otherwise send back every message as it was sent and answered.',
  },
  conversation_settings_changed: {
    severity: 'info',
    title: 'A conversation went on with other settings',
    nextStep: 'Keep model, tools, chat template fields and cache_salt equal over all turns of a conversation.',
  },
  conversation_not_comparable: {
    severity: 'info',
    title: 'A turn cannot be compared with the next one',
    nextStep: 'Leave the named field out in conversations, or send no conversation id with such requests.',
  },
  conversation_unknown_answer: {
    severity: 'info',
    title: 'What was answered cannot be compared with the next turn',
    nextStep: 'Nothing is wrong: prefill computes such turns itself.',
  },
  reasoning_stripped: {
    severity: 'warning',
    title: 'Reasoning of the last answer is not part of the next prompt',
    nextStep: 'Turns of thinking models cannot be reused, with thinking turned off neither. Send no conversation id with them: each turn pins memory of the decode instance for nothing.',
  },
  tool_calls_rerendered: {
    severity: 'info',
    title: 'A tool call is written anew in the next prompt',
    nextStep: 'Nothing is wrong: prefill computes such turns itself.',
  },
};

export function refusalVerdict(id: string, { code, why }: Refusal): Verdict {
  return { code, ...REFUSALS[code], message: `Conversation ${cut(id, 64)} does not reuse the blocks of its last turn: ${why}.`, hop: 'client->proxy' };
}

export function declinedVerdict(id: string, error: ProxyError, holder: Instance): Verdict {
  return {
    code: 'reuse_declined',
    severity: 'warning',
    title: 'Prefill could not read the blocks of the last turn',
    message: `Conversation ${cut(id, 64)}: prefill was told to read ${holder.name}'s blocks and failed, and ran again without: ${cut(error.message, 500)}`,
    nextStep: `Check that prefill instances reach the side channel of ${holder.name}, that bidirectional_kv_xfer is on at both ends, and that decoder_kv_blocks_ttl is longer than pdscope's time to live of conversations.`,
    hop: 'proxy->prefill',
    ...(error.instance !== undefined && { instance: error.instance.id }),
  };
}

export function notUsedVerdict(id: string, counts: { readonly held: number; readonly cached: number }, prefill: Instance): Verdict {
  return {
    code: 'reuse_not_used',
    severity: 'warning',
    title: 'Prefill did not read the blocks of the last turn',
    message: `Conversation ${cut(id, 64)}: ${counts.held} tokens could be read, ${prefill.name} reports ${counts.cached} as cached.`,
    nextStep: `Check that ${prefill.name} runs with bidirectional_kv_xfer; a gain below kv_recompute_threshold (64 tokens) is not worth a transfer to it.`,
    hop: 'prefill->proxy',
    instance: prefill.id,
  };
}

export function beyondPromptVerdict(id: string, counts: { readonly held: number; readonly prompt: number }, prefill: Instance): Verdict {
  return {
    code: 'reuse_beyond_prompt',
    severity: 'error',
    title: 'More tokens were reused than the prompt has',
    message: `Conversation ${cut(id, 64)}: the last turn left ${counts.held} tokens, but the prompt has ${counts.prompt}; it cannot extend them. Prefill ran again without them and past its cache.`,
    nextStep: `The chat template drops or rewrites earlier messages: send no conversation id with this model. ${prefill.name} may have cached wrong blocks under this prompt; POST /reset_prefix_cache clears them.`,
    hop: 'prefill->proxy',
    instance: prefill.id,
  };
}
