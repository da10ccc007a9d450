/**
 * One HTTP generation: its sequences in the engine core, their choices, and the writer that turns them into a body. The
 * writer is the only thing that differs between streaming and not.
 */
import type { EngineCore } from './engine-core.ts';
import type { GenerationRequest } from './generation-request.ts';
import { chatLogprobs, completionLogprobs, sampleLogprobs, tokenIdLogprobs, type TokenLogprobs } from './logprobs.ts';
import { planOutput, type OutputPlan } from './output-plan.ts';
import type { FinishResult, Sequence } from './sequence.ts';
import { systemFingerprint, type ResolvedSimOptions } from './sim-options.ts';
import { TextAssembler } from './text-assembler.ts';
import { THINK_END_TOKEN } from './tokenizer.ts';
import { readTransferParams } from './transfer/params.ts';

/** Tokens that came since the last call, as text and as ids. */
export interface Delta {
  readonly text: string;
  /** Text before the answer; empty unless the prompt opened the reasoning. */
  readonly reasoning: string;
  readonly tokens: readonly number[];
  /** Already in the API's shape; null when not asked for. */
  readonly logprobs: object | null;
}

export interface Choice {
  readonly index: number;
  readonly plan: OutputPlan;
  readonly assembler: TextAssembler;
  /** Undefined when there is none, or when this route does not tell it from the answer. */
  readonly reasoning: { readonly assembler: TextAssembler; tokens: number; isOpen: boolean } | undefined;
  readonly tokens: number[];
  readonly logprobs: TokenLogprobs[];
  finish: { readonly reason: string; readonly stopReason: string | number | null } | undefined;
}

export interface GenerationWriter {
  /** First output of any choice, after prefill. */
  begin(): void;
  delta(choice: Choice, delta: Delta): void;
  /** All choices ended. */
  complete(): void;
  failed(message: string): void;
}

export interface Usage {
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number;
  readonly media: number;
  /** Output tokens before the answer; undefined when no choice reasons. */
  readonly reasoning: number | undefined;
}

export interface GenerationInput {
  readonly request: GenerationRequest;
  readonly options: ResolvedSimOptions;
  readonly core: EngineCore;
  /** With the route's prefix, e.g. `chatcmpl-<id>`. */
  readonly responseId: string;
  /** Random suffix for internal ids: 8 hex digits. */
  readonly nextSuffix: () => string;
  /** Whether usage calls every prompt token cached (fault `wrong-cached-tokens`); asked when usage is told. */
  readonly isLying: () => boolean;
}

export class Generation {
  readonly request: GenerationRequest;
  readonly options: ResolvedSimOptions;
  readonly responseId: string;
  readonly createdS = Math.floor(Date.now() / 1000);
  readonly choices: Choice[] = [];
  readonly fingerprint: string;
  kvTransferParams: object | undefined;
  readonly #input: GenerationInput;
  readonly #sequences: Sequence[] = [];
  readonly #pending = new Map<Choice, { text: string; reasoning: string; tokens: number[] }>();
  #writer: GenerationWriter | undefined;
  #hasBegun = false;
  #open = 0;

  constructor(input: GenerationInput) {
    this.#input = input;
    this.request = input.request;
    this.options = input.options;
    this.responseId = input.responseId;
    this.fingerprint = systemFingerprint(input.options);
  }

  start(writer: GenerationWriter): void {
    this.#writer = writer;
    const { prompts, n } = this.request;
    this.#open = prompts.length * n;
    for (let prompt = 0; prompt < prompts.length; prompt += 1) {
      for (let child = 0; child < n; child += 1) this.#submit(prompt, child);
    }
  }

  abort(): void {
    this.#writer = undefined;
    for (const sequence of this.#sequences) this.#input.core.abort(sequence);
  }

  usage(): Usage {
    const { prompts, n } = this.request;
    const reasoning = this.choices.flatMap((choice) => choice.reasoning?.tokens ?? []);
    const firsts = this.#sequences.filter((_, index) => index % n === 0);
    const prompt = prompts.reduce((sum, { tokens }) => sum + tokens.length, 0);
    return {
      prompt,
      completion: this.#sequences.reduce((sum, sequence) => sum + sequence.outputLength, 0),
      cached: this.#input.isLying() ? prompt : firsts.reduce((sum, sequence) => sum + sequence.cachedTokens, 0),
      media: prompts.reduce((sum, { media }) => sum + media.reduce((total, item) => total + item.length, 0), 0),
      reasoning: reasoning.length === 0 ? undefined : reasoning.reduce((sum, tokens) => sum + tokens, 0),
    };
  }

  /** The `metrics` object of `--enable-per-request-metrics`; null when off. The queue is not part of the first-token time. */
  perRequestMetrics(): object | null {
    const sequence = this.#sequences[0];
    if (!this.options.perRequestMetrics || sequence === undefined) return null;
    const { arrivedMs, scheduledMs, firstTokenMs, lastTokenMs, outputLength } = sequence;
    if (scheduledMs === undefined || firstTokenMs === undefined || lastTokenMs === undefined) return null;
    const decodeMs = lastTokenMs - firstTokenMs;
    return {
      time_to_first_token_ms: firstTokenMs - scheduledMs,
      generation_time_ms: lastTokenMs - scheduledMs,
      queue_time_ms: scheduledMs - arrivedMs,
      mean_itl_ms: outputLength > 1 ? decodeMs / (outputLength - 1) : null,
      tokens_per_second: decodeMs > 0 ? ((outputLength - 1) * 1000) / decodeMs : null,
    };
  }

  /** In the API's shape. */
  logprobsOf(entries: readonly TokenLogprobs[], offset: number): object | null {
    if (this.request.logprobs === undefined) return null;
    const { api } = this.request;
    if (api === 'generate') return tokenIdLogprobs(entries);
    return api === 'completions' ? completionLogprobs(entries, offset) : chatLogprobs(entries);
  }

  #submit(prompt: number, child: number): void {
    const { request, options } = this;
    const rendered = request.prompts[prompt];
    if (rendered === undefined) return;
    const index = prompt * request.n + child;
    const plan = planOutput({
      promptTokens: rendered.tokens,
      seed: request.seed,
      choice: child,
      minTokens: request.minTokens,
      ignoreEos: request.ignoreEos,
      json: request.json,
      tools: request.tools,
      toolChoice: request.toolChoice,
    });
    const splitsReasoning = plan.isThinking && (request.api === 'chat' || request.api === 'messages');
    const choice: Choice = {
      index,
      plan,
      assembler: new TextAssembler(request.stop),
      reasoning: splitsReasoning ? { assembler: new TextAssembler(request.stop), tokens: 0, isOpen: true } : undefined,
      tokens: [],
      logprobs: [],
      finish: undefined,
    };
    this.choices.push(choice);
    const base = request.api === 'completions' ? `${this.responseId}-${prompt}` : this.responseId;
    this.#sequences.push(
      this.#input.core.submit({
        id: `${request.n > 1 ? `${child}_` : ''}${base}-${this.#input.nextSuffix()}`,
        promptTokens: rendered.tokens,
        media: rendered.media,
        cacheSalt: request.cacheSalt,
        lora: request.lora,
        maxTokens: request.maxTokens ?? options.maxModelLen - rendered.tokens.length,
        minTokens: request.minTokens,
        stop: request.stop,
        stopTokenIds: request.stopTokenIds,
        ignoreEos: request.ignoreEos,
        n: request.n,
        plan,
        kvTransfer: readTransferParams(request.kvTransferParams),
        isFullReport: request.isFullReport,
        listener: {
          token: (token) => this.#token(choice, token, false),
          finished: (token, result) => this.#finished(choice, token, result),
          failed: (message) => this.#failed(message),
        },
      }),
    );
  }

  #token(choice: Choice, token: number, isLast: boolean): void {
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.#writer?.begin();
    }
    choice.tokens.push(token);
    if (this.request.logprobs !== undefined) {
      choice.logprobs.push(sampleLogprobs(token, choice.tokens.length, this.request.logprobs));
    }
    const pending = this.#pending.get(choice) ?? { text: '', reasoning: '', tokens: [] };
    if (choice.reasoning?.isOpen === true) pending.reasoning += pushReasoning(choice.reasoning, token);
    else pending.text += choice.assembler.push(token);
    pending.tokens.push(token);
    this.#pending.set(choice, pending);
    if (!isLast && pending.tokens.length >= this.request.streamInterval) this.#flush(choice);
  }

  #flush(choice: Choice): void {
    const { text, reasoning, tokens } = this.#pending.get(choice) ?? { text: '', reasoning: '', tokens: [] };
    this.#pending.delete(choice);
    const entries = this.request.logprobs === undefined ? [] : choice.logprobs.slice(choice.logprobs.length - tokens.length);
    const offset = choice.assembler.text.length - text.length;
    const shown = this.request.showsReasoning ? reasoning : '';
    this.#writer?.delta(choice, { text, reasoning: shown, tokens, logprobs: tokens.length === 0 ? null : this.logprobsOf(entries, offset) });
  }

  #finished(choice: Choice, token: number | undefined, result: FinishResult): void {
    if (token !== undefined) this.#token(choice, token, true);
    else if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.#writer?.begin();
    }
    const pending = this.#pending.get(choice) ?? { text: '', reasoning: '', tokens: [] };
    if (choice.reasoning?.isOpen === true) pending.reasoning += choice.reasoning.assembler.end();
    pending.text += choice.assembler.end();
    this.#pending.set(choice, pending);
    const isCall = choice.plan.kind === 'tool' && result.reason === 'stop';
    choice.finish = { reason: isCall ? 'tool_calls' : result.reason, stopReason: result.stopReason ?? null };
    this.kvTransferParams = result.kvTransferParams ?? this.kvTransferParams;
    this.#flush(choice);
    this.#open -= 1;
    if (this.#open === 0) this.#writer?.complete();
  }

  #failed(message: string): void {
    const writer = this.#writer;
    this.abort();
    writer?.failed(message);
  }
}

/** The marker itself is never shown. */
function pushReasoning(reasoning: NonNullable<Choice['reasoning']>, token: number): string {
  reasoning.tokens += 1;
  if (token !== THINK_END_TOKEN) return reasoning.assembler.push(token);
  reasoning.isOpen = false;
  return reasoning.assembler.end();
}
