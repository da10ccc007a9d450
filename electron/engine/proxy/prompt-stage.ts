/**
 * Before routing by prefix: the prompt's token ids, from an engine's own tokenizer (POST /tokenize, vLLM
 * vllm/entrypoints/serve/tokenize/protocol.py), when neither the request nor a render leg gives them. It is a leg of its
 * own, so its time shows in the request's timeline; it has a hard deadline, after which the request is routed without.
 *
 * Asking is the dearest part of routing by prefix, a third call beside two. So nobody is asked when no choice could rest on
 * the answer (one candidate, or nobody who holds a block), nor for a prompt whose tokens were had a moment ago.
 *
 * Never fails a request: whatever goes wrong is a reason to balance by load, told in the decision.
 */
import { errorMessage } from '#shared/errors.ts';
import type { Api } from '#shared/vocabulary.ts';
import type { Instance } from '../fleet/instance.ts';
import type { LegScheduler } from '../fleet/ports.ts';
import type { ClientRequest } from './client-request.ts';
import type { LegAnswer, LegRequest } from './connectors/connector.ts';
import { memberValue } from './json-members.ts';
import { ProxyError } from './proxy-error.ts';
import type { PromptView } from './prompt-view.ts';
import type { RoutingTokenizer } from './routing-tokenizer.ts';
import { parseTokenIds } from './token-ids.ts';

export const DEFAULT_TOKENIZE_DEADLINE_MS = 20;
const TOKENIZE_PATH = '/tokenize';

/** What decides about tokens. Values are the client's very bytes. */
const FIELDS: Readonly<Record<Exclude<Api, 'generate'>, ReadonlySet<string>>> = {
  chat: new Set([
    'model', 'messages', 'add_generation_prompt', 'continue_final_message', 'add_special_tokens', 'chat_template',
    'chat_template_kwargs', 'tools',
  ]),
  completions: new Set(['model', 'prompt', 'add_special_tokens']),
};

export interface PromptStageContext {
  readonly request: ClientRequest;
  readonly scheduler: LegScheduler;
  /** As `LegContext.call`; cancelled when it takes longer than `deadlineMs`. */
  callWithin(leg: LegRequest, deadlineMs: number): Promise<LegAnswer>;
}

export interface PromptStage {
  readonly prompt: PromptView;
  readonly tokenizer: RoutingTokenizer;
  readonly isAllowed: boolean;
  readonly deadlineMs: number;
  /** Whether prefill may be left out, which rests on what decode instances hold. */
  readonly maySkipPrefill: boolean;
}

/** Makes the tokens known if need be; undefined when there is nothing to wait for. Never rejects. */
export function preparePrompt(context: PromptStageContext, stage: PromptStage): Promise<void> | undefined {
  const { prompt, tokenizer, isAllowed } = stage;
  if (!prompt.wantsTokens) return undefined;
  prompt.needless = reasonNotToAsk(context, stage);
  if (prompt.needless !== undefined) return undefined;
  const reason = isAllowed ? tokenizer.reasonAgainst : "the prompt's tokens are not known, and asking for them (tokenizeForRouting) is off";
  const instance = reason === undefined ? leastBusy(context.scheduler.candidates('render').routable) : undefined;
  const body = instance === undefined ? undefined : tokenizeBody(context.request);
  if (instance === undefined || body === undefined) {
    prompt.problem = reason ?? (instance === undefined ? 'no instance could be asked for tokens' : 'the request has no prompt to tokenize');
    return undefined;
  }
  const key = tokenizer.recent.keyOf(body);
  const known = key === undefined ? undefined : tokenizer.recent.get(key);
  if (known !== undefined) {
    prompt.learn(known, 'tokenize');
    return undefined;
  }
  return tokenize(context, stage, { instance, body, key });
}

/** Undefined when the choice of an instance, or of a rank, may rest on the prompt's tokens. */
function reasonNotToAsk({ scheduler }: PromptStageContext, { prompt, maySkipPrefill }: PromptStage): string | undefined {
  const [prefill, decode] = [scheduler.candidates('prefill').routable, scheduler.candidates('decode').routable];
  const isChoice = (instances: readonly Instance[]): boolean => instances.length > 1 || (instances[0]?.dpSize ?? 1) > 1;
  const open = [...(isChoice(prefill) ? prefill : []), ...(isChoice(decode) || maySkipPrefill ? decode : [])];
  if (open.length === 0) return 'the only candidate';
  return prompt.isHeldAmong(open) ? undefined : 'no candidate holds a block that could be found';
}

async function tokenize(
  context: PromptStageContext,
  { prompt, tokenizer, deadlineMs }: PromptStage,
  { instance, body, key }: { readonly instance: Instance; readonly body: Buffer; readonly key: string | undefined },
): Promise<void> {
  try {
    const leg = { kind: 'render', instance, path: TOKENIZE_PATH, body, rewrites: [{ field: '(body)', to: 'the prompt only, for its tokens' }] } as const;
    const answer = await context.callWithin(leg, deadlineMs);
    const ids = memberValue(answer.body, answer.members, 'tokens');
    const tokens = ids === undefined ? undefined : parseTokenIds(ids);
    if (tokens === undefined) throw new ProxyError(502, 'bad_response', `${instance.name} answered ${TOKENIZE_PATH} without token ids.`, { leg: 'render', instance });
    tokenizer.succeeded();
    if (key !== undefined) tokenizer.recent.set(key, tokens);
    prompt.learn(tokens, 'tokenize');
  } catch (error) {
    const problem = describe(error, instance);
    prompt.problem = `no tokens of the prompt: ${problem}`;
    // Neither a prompt that the engine refuses nor a client that leaves says anything about the route.
    if (error instanceof ProxyError && error.leg === 'render' && (!error.isRequestFault || error.status === 404)) tokenizer.failed(problem);
  }
}

/** An engine's own message names neither itself nor the route. */
function describe(error: unknown, { name }: Instance): string {
  const message = errorMessage(error).replace(/\.$/u, '');
  return error instanceof ProxyError && error.code === 'upstream_status' ? `${name} answered ${TOKENIZE_PATH} with ${error.status}: ${message}` : message;
}

/** Undefined when the request has nothing of the kind. */
export function tokenizeBody({ api, body, members }: ClientRequest): Buffer | undefined {
  if (api === 'generate') return undefined;
  const wanted = FIELDS[api];
  const parts: Buffer[] = [];
  for (const { key, start, end } of members) {
    if (!wanted.has(key)) continue;
    parts.push(COMMA, body.subarray(start, end));
  }
  const field = api === 'chat' ? 'messages' : 'prompt';
  if (!members.some(({ key }) => key === field)) return undefined;
  return Buffer.concat([OPEN, ...parts.slice(1), CLOSE]);
}

const OPEN = Buffer.from('{');
const COMMA = Buffer.from(',');
const CLOSE = Buffer.from('}');

/** The order of the fleet decides among equals: prefill instances come first where they were added first. */
function leastBusy(instances: readonly Instance[]): Instance | undefined {
  let best: Instance | undefined;
  for (const instance of instances) if (best === undefined || instance.inFlight < best.inFlight) best = instance;
  return best;
}
