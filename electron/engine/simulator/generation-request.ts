/** A generation as asked for, whichever route it came in on. */
import type { RenderedPrompt } from './chat-template.ts';
import type { ToolChoice } from './output-plan.ts';
import type { SimApi } from './sim-api.ts';

/** What vLLM's SamplingParams hold, as far as a simulated model has use for it. */
export interface Sampling {
  readonly n: number;
  /** Undefined: up to the model's limit. */
  readonly maxTokens: number | undefined;
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  readonly seed: number | undefined;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  /** Number of alternatives; undefined = no logprobs. */
  readonly logprobs: number | undefined;
  /** The same for the prompt's tokens. */
  readonly promptLogprobs: number | undefined;
  readonly json: { readonly schema: unknown } | undefined;
}

export interface Streaming {
  readonly isStream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  /** Tokens per chunk. */
  readonly streamInterval: number;
}

export interface ServedModel {
  /** As answered. */
  readonly model: string;
  readonly lora: { readonly id: number; readonly name: string } | undefined;
}

export interface GenerationRequest extends Sampling, Streaming, ServedModel {
  readonly api: SimApi;
  /** One per prompt; only completions have several. */
  readonly prompts: readonly RenderedPrompt[];
  readonly returnTokenIds: boolean;
  /** Reasoning is told apart from the answer and shown (`include_reasoning`). */
  readonly showsReasoning: boolean;
  readonly tools: readonly ToolChoice[];
  readonly toolChoice: 'none' | 'auto' | 'required';
  readonly cacheSalt: string | undefined;
  /** As given; what they mean is the transfer's business. */
  readonly kvTransferParams: Readonly<Record<string, unknown>> | undefined;
  readonly isFullReport: boolean;
  /** The body's `request_id`; the header wins. */
  readonly requestId: string | undefined;
}
