/**
 * A request's prompt as routing sees it: its token ids, when they are known, and what instances hold of them. Made only
 * when the policy or a setting asks for it. Tokens come with the request, from the render leg, or from /tokenize
 * (prompt-stage.ts); without them it says why.
 *
 * What instances hold is asked for anew when it is more than a moment old: decode is chosen after prefill has run.
 */
import type { Instance } from '../fleet/instance.ts';
import type { RequestTrace } from '../telemetry/trace.ts';
import { asJsonObject, type ClientRequest } from './client-request.ts';
import type { InstancePrefix, PrefixLookup } from './policies/prefix-lookup.ts';
import { tokenIdsOf } from './token-ids.ts';

export type TokenSource = 'request' | 'render' | 'tokenize';

const NO_TOKENS = new Uint32Array(0);

/** Choices of one step share an answer. */
const FRESH_MS = 10;

export class PromptView {
  tokens: Uint32Array | undefined;
  tokensFrom: TokenSource | undefined;
  /** Why there are no tokens. */
  problem: string | undefined;
  /** Why tokens are not needed: no choice could rest on them. */
  needless: string | undefined;
  readonly #request: ClientRequest;
  readonly #lookup: PrefixLookup | undefined;
  readonly #trace: Pick<RequestTrace, 'prompt'> | undefined;
  #holders: readonly InstancePrefix[] = [];
  #askedAtMs = Number.NEGATIVE_INFINITY;

  /** @param lookup absent: nobody keeps an index. @param trace told of the tokens as soon as they are known. */
  constructor(request: ClientRequest, lookup: PrefixLookup | undefined, trace?: Pick<RequestTrace, 'prompt'>) {
    this.#request = request;
    this.#lookup = lookup;
    this.#trace = trace;
    this.problem = lookup === undefined ? 'there is no block index' : reasonAgainstTokens(request);
    if (this.problem !== undefined) return;
    const { prompt, token_ids: tokenIds } = request.json;
    const one: unknown = Array.isArray(prompt) && prompt.length === 1 && Array.isArray(prompt[0]) ? prompt[0] : prompt;
    const tokens = tokenIdsOf(request.api === 'generate' ? tokenIds : one);
    if (tokens !== undefined) this.learn(tokens, 'request');
  }

  /** Whether tokens are missing that somebody could give. */
  get wantsTokens(): boolean {
    return this.tokens === undefined && this.problem === undefined && this.needless === undefined;
  }

  /** Whether some block could be found on any of these. */
  isHeldAmong(instances: readonly Instance[]): boolean {
    return this.#lookup?.holdsAny(instances) === true;
  }

  learn(tokens: Uint32Array, from: TokenSource): void {
    this.tokens = tokens;
    this.tokensFrom = from;
    this.problem = undefined;
    this.#askedAtMs = Number.NEGATIVE_INFINITY;
    this.#trace?.prompt(tokens, from);
  }

  /** What instances hold of the prompt now, or why that is not known. */
  holders(): readonly InstancePrefix[] | string {
    // Nobody holds anything of a prompt without tokens, but who is watched, and how well, is the same.
    const tokens = this.tokens ?? (this.needless === undefined ? undefined : NO_TOKENS);
    if (tokens === undefined || this.#lookup === undefined) return this.problem ?? "the prompt's tokens are not known";
    const nowMs = performance.now();
    if (nowMs - this.#askedAtMs > FRESH_MS) {
      const { model, cache_salt: salt } = this.#request.json;
      this.#askedAtMs = nowMs;
      this.#holders = this.#lookup.prefix({
        tokens,
        requestId: this.#request.requestId,
        ...(typeof model === 'string' && { model }),
        ...(typeof salt === 'string' && salt !== '' && { salt }),
      });
    }
    return this.#holders;
  }
}

/** Why ids of this prompt could not be compared with those of blocks. */
function reasonAgainstTokens({ api, json }: ClientRequest): string | undefined {
  if (typeof (json['truncate_prompt_tokens'] ?? undefined) === 'number') return 'truncate_prompt_tokens: the engine cuts the prompt';
  if (api === 'chat') return hasMedia(json['messages']) ? 'the prompt has media, whose tokens and keys only engines know' : undefined;
  if (api === 'generate') {
    const features = asJsonObject(json['features']);
    return features !== undefined && Object.keys(features).length > 0 ? 'the prompt has media, whose keys only engines know' : undefined;
  }
  if ((json['prompt_embeds'] ?? undefined) !== undefined) return 'prompt_embeds: the prompt has no tokens';
  const { prompt } = json;
  return Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number' ? `${prompt.length} prompts in one request` : undefined;
}

/** Content parts other than text (vllm/entrypoints/chat_utils.py). */
function hasMedia(messages: unknown): boolean {
  if (!Array.isArray(messages)) return false;
  return messages.some((message: unknown) => {
    const content = asJsonObject(message)?.['content'];
    return Array.isArray(content) && content.some((part: unknown) => !isText(part));
  });
}

function isText(part: unknown): boolean {
  if (typeof part === 'string') return true;
  const { type, text } = asJsonObject(part) ?? {};
  return type === undefined ? typeof text === 'string' : typeof type === 'string' && TEXT_PARTS.has(type);
}

const TEXT_PARTS: ReadonlySet<string> = new Set(['text', 'input_text', 'output_text', 'refusal', 'thinking']);
