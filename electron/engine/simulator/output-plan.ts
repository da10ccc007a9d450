/**
 * What the simulated model will answer, decided before it starts: a function of the prompt, the request's seed and the
 * choice's index, never of the instance. So prefill and decode agree on the first token, as two replicas of one model would.
 */
import { createPrng, mixSeed, seedOf, type Prng } from './prng.ts';
import { encodeText, EOS_TOKEN, THINK_END_TOKEN, THINK_TOKEN, tokenId } from './tokenizer.ts';
import { WORDS } from './words.ts';
import { sampleJson } from './json-sample.ts';

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

export interface OutputPlan {
  readonly kind: 'text' | 'tool';
  readonly tool?: ToolCall;
  /** The prompt opened the reasoning: what comes before THINK_END_TOKEN is no answer yet. */
  readonly isThinking: boolean;
  /** Token at `index`; EOS_TOKEN where the model would stop by itself. */
  tokenAt(index: number): number;
}

export interface OutputPlanInput {
  readonly promptTokens: readonly number[];
  /** The request's `seed`. */
  readonly seed: number | undefined;
  readonly choice: number;
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  /** Present when the answer must be JSON; `schema` when it must fit one. */
  readonly json: { readonly schema: unknown } | undefined;
  readonly tools: readonly ToolChoice[];
  /** `required`: a call for certain. `auto`: sometimes. */
  readonly toolChoice: 'none' | 'auto' | 'required';
}

export interface ToolChoice {
  readonly name: string;
  readonly parameters: unknown;
}

/** Share of requests with tools, under `auto`, that end in a call. */
const AUTO_TOOL_SHARE = 0.4;
const MIN_NATURAL_LENGTH = 12;
const MEAN_EXTRA_LENGTH = 90;
const MAX_NATURAL_LENGTH = 1200;
const MIN_REASONING_LENGTH = 10;
const REASONING_SPREAD = 40;

const COMMA = tokenId(',');
const STOP = tokenId('.');
const BREAK = tokenId('\n\n');
const PLAIN = WORDS.map((word) => tokenId(` ${word}`));
const CAPITALISED = WORDS.map((word) => tokenId(`${word.charAt(0).toUpperCase()}${word.slice(1)}`));
const SPACE = tokenId(' ');

/** Sentences of known words: one token each, produced on demand because most answers are cut short. */
function textTokens(prng: Prng, naturalLength: number): (index: number) => number {
  const tokens: number[] = [];
  let left = 0;
  const pick = (list: readonly number[]): number => list[prng.int(list.length)] ?? SPACE;
  const extend = (): void => {
    if (left === 0) {
      if (tokens.length > 0) tokens.push(prng.next() < 0.12 ? BREAK : SPACE);
      tokens.push(pick(CAPITALISED));
      left = 5 + prng.int(14);
      return;
    }
    left -= 1;
    if (left === 0) tokens.push(STOP);
    else if (left > 2 && prng.next() < 0.08) tokens.push(COMMA);
    else tokens.push(pick(PLAIN));
  };
  return (index) => {
    if (index >= naturalLength) return EOS_TOKEN;
    while (tokens.length <= index) extend();
    return tokens[index] ?? EOS_TOKEN;
  };
}

function fixedTokens(text: string): (index: number) => number {
  const tokens = encodeText(text);
  return (index) => tokens[index] ?? EOS_TOKEN;
}

function naturalLength(prng: Prng, input: OutputPlanInput): number {
  if (input.ignoreEos) return Number.POSITIVE_INFINITY;
  const extra = Math.floor(-Math.log(1 - prng.next()) * MEAN_EXTRA_LENGTH);
  return Math.max(input.minTokens, Math.min(MIN_NATURAL_LENGTH + extra, MAX_NATURAL_LENGTH));
}

type Answer = Omit<OutputPlan, 'isThinking'>;

function planTool(prng: Prng, input: OutputPlanInput): Answer | undefined {
  if (input.toolChoice === 'none' || input.tools.length === 0) return undefined;
  if (input.toolChoice === 'auto' && prng.next() >= AUTO_TOOL_SHARE) return undefined;
  const tool = input.tools[prng.int(input.tools.length)];
  if (tool === undefined) return undefined;
  const text = JSON.stringify(sampleJson(tool.parameters, prng));
  const call: ToolCall = { id: `chatcmpl-tool-${prng.hex(32)}`, name: tool.name, arguments: text };
  return { kind: 'tool', tool: call, tokenAt: fixedTokens(text) };
}

/** As a thinking model would: whether it reasons first is in the prompt's tokens, not in the route they came in on. */
export function planOutput(input: OutputPlanInput): OutputPlan {
  const answer = planAnswer(input);
  if (input.promptTokens.at(-1) !== THINK_TOKEN) return { ...answer, isThinking: false };
  const prng = createPrng(mixSeed(input.promptTokens, seedOf(`reasoning/${input.seed ?? ''}/${input.choice}`)));
  const length = MIN_REASONING_LENGTH + prng.int(REASONING_SPREAD);
  const reasoning = textTokens(prng, length);
  return {
    ...answer,
    isThinking: true,
    tokenAt: (index) => {
      if (index === length) return THINK_END_TOKEN;
      return index < length ? reasoning(index) : answer.tokenAt(index - length - 1);
    },
  };
}

function planAnswer(input: OutputPlanInput): Answer {
  const start = seedOf(`${input.seed ?? ''}/${input.choice}`);
  const prng = createPrng(mixSeed(input.promptTokens, start));
  const tool = planTool(prng, input);
  if (tool !== undefined) return tool;
  if (input.json !== undefined) {
    return { kind: 'text', tokenAt: fixedTokens(JSON.stringify(sampleJson(input.json.schema, prng))) };
  }
  return { kind: 'text', tokenAt: textTokens(prng, naturalLength(prng, input)) };
}
