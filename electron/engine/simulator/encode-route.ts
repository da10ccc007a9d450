/** An inference request at an encoder-only instance: an answer without text, and no use for streaming. */
import { badRequest, internalError } from './api-error.ts';
import type { Exchange } from './exchange.ts';
import type { GenerationRequest } from './generation-request.ts';
import type { SimContext } from './sim-context.ts';
import { systemFingerprint } from './sim-options.ts';

export interface EncodeRouteInput {
  readonly request: GenerationRequest;
  readonly responseId: string;
  readonly done: () => void;
}

export function answerEncode(exchange: Exchange, context: SimContext, { request, responseId, done }: EncodeRouteInput): void {
  const { encoder } = context.life();
  const prompt = request.prompts[0];
  if (encoder === undefined || prompt === undefined) throw internalError();
  if (request.isStream) throw badRequest('Encoder instances do not stream; send stream=false.', 'stream');
  const cancel = encoder.encode(prompt.media, prompt.tokens.length, (ecTransferParams) => {
    exchange.inferenceJson(
      request.api === 'generate'
        ? tokenBody(request, responseId, ecTransferParams)
        : chatBody(request, responseId, { ecTransferParams, fingerprint: systemFingerprint(context.options) }),
    );
    done();
  });
  exchange.onAbort(() => {
    cancel();
    done();
  });
}

function usageOf(request: GenerationRequest): object {
  const tokens = request.prompts[0]?.tokens.length ?? 0;
  return { prompt_tokens: tokens, total_tokens: tokens, completion_tokens: 0, prompt_tokens_details: null, completion_tokens_details: null };
}

function nowUnixS(): number {
  return Math.floor(Date.now() / 1000);
}

function tokenBody(request: GenerationRequest, id: string, ecTransferParams: object): object {
  return {
    request_id: id,
    created: nowUnixS(),
    model: request.model,
    choices: [{ index: 0, logprobs: null, finish_reason: 'length', token_ids: [], routed_experts: null, sampling_mask: null }],
    usage: usageOf(request),
    prompt_logprobs: null,
    kv_transfer_params: null,
    ec_transfer_params: ecTransferParams,
  };
}

function chatBody(request: GenerationRequest, id: string, more: { readonly ecTransferParams: object; readonly fingerprint: string }): object {
  return {
    id,
    object: 'chat.completion',
    created: nowUnixS(),
    model: request.model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: '', refusal: null, annotations: null, audio: null, function_call: null, reasoning: null },
        logprobs: null,
        finish_reason: 'length',
        stop_reason: null,
        token_ids: null,
        routed_experts: null,
      },
    ],
    service_tier: null,
    system_fingerprint: more.fingerprint,
    usage: usageOf(request),
    prompt_logprobs: null,
    prompt_token_ids: null,
    prompt_text: null,
    kv_transfer_params: null,
    ec_transfer_params: more.ecTransferParams,
    metrics: null,
  };
}
