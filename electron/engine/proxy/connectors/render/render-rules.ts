/** Which way a request can go in render mode, and what to say when an engine lacks the routes. */
import type { Verdict } from '#shared/findings.ts';
import { asJsonObject, type ClientRequest } from '../../client-request.ts';
import { ProxyError } from '../../proxy-error.ts';

type Json = Readonly<Record<string, unknown>>;

export const RENDER_PATHS = { chat: '/v1/chat/completions/render', completions: '/v1/completions/render' } as const;

/** Why a request cannot be driven with token ids: its answer would not be the one it asked for. undefined when it can. */
export function reasonAgainstRendering({ api, json }: ClientRequest): string | undefined {
  if (json['use_beam_search'] === true) return 'use_beam_search is refused by the render route';
  if (typeof json['best_of'] === 'number' && json['best_of'] > 1) return 'best_of has no counterpart in the generate API';
  if (json['echo'] === true) return 'echo gives the prompt as text';
  if (typeof json['prompt_logprobs'] === 'number') return 'prompt_logprobs come with decoded tokens only from the route itself';
  if (json['return_token_ids'] === true) return 'return_token_ids gives tokens beside the text';
  if (api === 'completions') {
    const { prompt } = json;
    if (Array.isArray(prompt) && prompt.length !== 1 && typeof prompt[0] !== 'number') return `${prompt.length} prompts: one is rendered and handed over`;
    if (typeof json['suffix'] === 'string' && json['suffix'] !== '') return 'suffix shapes the prompt outside the render route';
  }
  return undefined;
}

/**
 * Why a streaming request needs its answer whole before it can be text: only the engine's parsers tell tool calls and
 * reasoning from content, and only its derender route resolves log probabilities. undefined: text alone will do.
 */
export function reasonForWhole({ api, json }: ClientRequest): string | undefined {
  if (typeof json['logprobs'] === 'number' || json['logprobs'] === true) return 'logprobs';
  if (api !== 'chat') return undefined;
  if (Array.isArray(json['tools']) && json['tools'].length > 0 && json['tool_choice'] !== 'none') return 'tools';
  if (json['response_format'] !== undefined && json['response_format'] !== null && asJsonObject(json['response_format'])?.['type'] !== 'text') {
    return 'response_format';
  }
  return asksForReasoning(json) ? 'reasoning' : undefined;
}

function asksForReasoning(json: Json): boolean {
  if (json['include_reasoning'] === true || typeof json['reasoning_effort'] === 'string') return true;
  const template = asJsonObject(json['chat_template_kwargs']);
  return template?.['enable_thinking'] === true || template?.['thinking'] === true;
}

/** vllm pull requests 54579 and 55176: on by default up to 0.29, then behind the variable for a while, then behind the flag. */
const FLAG = 'vLLM after 0.29 needs --enable-scale-out for them (builds of early September 2026: VLLM_ENABLE_SCALE_OUT_ENDPOINTS=1); its Rust frontend has no render route at all';

/** A route that the engine does not have (vLLM says so in these words, others say nothing); a missing model has a message of its own. */
export function isMissingRoute(error: unknown): error is ProxyError {
  if (!(error instanceof ProxyError) || error.code !== 'upstream_status' || (error.status !== 404 && error.status !== 405)) return false;
  return /^(?:not found|method not allowed)\.?$/i.test(error.message) || error.message.endsWith(`answered ${error.status}.`);
}

/** 501 that says which route is missing and what turns it on. */
export function missingRouteError(error: ProxyError, path: string): ProxyError {
  const where = error.instance === undefined ? 'An instance' : `${error.instance.name} (${error.instance.origin})`;
  const message = `${where} has no ${path}, which render mode needs. ${FLAG}. Choose another connector, or start the engines with these routes.`;
  return new ProxyError(501, 'render_unsupported', message, {
    ...(error.leg !== undefined && { leg: error.leg }),
    ...(error.instance !== undefined && { instance: error.instance }),
    isRequestFault: true,
    cause: error,
  });
}

export function missingRouteVerdict(error: ProxyError): Verdict {
  return {
    code: 'render_unsupported',
    severity: 'error',
    title: 'The engine has no render or generate routes',
    message: error.message,
    nextStep: 'Start the instance with --enable-scale-out (vLLM with /v1/chat/completions/render, derender and /inference/v1/generate), or choose the nixl connector.',
    ...(error.instance !== undefined && { instance: error.instance.id }),
  };
}

export function notParsedVerdict(error: ProxyError, path: string): Verdict {
  return {
    code: 'not_derendered',
    severity: 'info',
    title: 'Tokens were decoded without the engine\'s parsers',
    message: `${error.instance?.name ?? 'The instance'} has no ${path}: the answer is plain text, and reasoning in it is not told apart.`,
    nextStep: 'Use engines that serve the derender routes if the model reasons or calls tools unasked.',
    ...(error.instance !== undefined && { instance: error.instance.id }),
  };
}

export function notRenderedVerdict(reason: string): Verdict {
  return {
    code: 'not_rendered',
    severity: 'info',
    title: 'The request cannot be driven with token ids',
    message: `Sent to a decode instance as it is, without rendering and without a handoff: ${reason}.`,
    nextStep: 'Nothing, unless such requests are frequent: the nixl connector hands over some of them.',
  };
}
