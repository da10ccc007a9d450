/** POST /v1/embeddings of a pooling model: the same text gives the same unit vector (vllm/entrypoints/pooling/embed). */
import { badRequest, validationError } from './api-error.ts';
import { checkTokens } from './body-fields.ts';
import { isRecord } from './chat-template.ts';
import type { Exchange } from './exchange.ts';
import { randomId, readJsonBody } from './json-body.ts';
import { createPrng, mixSeed } from './prng.ts';
import { checkLength, readModel } from './sampling-parsing.ts';
import type { SimContext } from './sim-context.ts';
import { encodeText } from './tokenizer.ts';

export const EMBEDDINGS_PATH = '/v1/embeddings';

/** Real models have 768 to 8192. */
const DIMENSIONS = 64;

function readInputs(value: unknown): number[][] {
  if (value === undefined) throw validationError('missing', ['input'], 'Field required');
  if (typeof value === 'string') return [encodeText(value)];
  if (!Array.isArray(value) || value.length === 0) throw badRequest('The input must be a string or a non-empty list', 'input');
  const items = value as readonly unknown[];
  if (typeof items[0] === 'number') return [checkTokens(items, 'input')];
  return items.map((item) => (typeof item === 'string' ? encodeText(item) : checkTokens(Array.isArray(item) ? item : [], 'input')));
}

function embed(tokens: readonly number[]): number[] {
  const prng = createPrng(mixSeed(tokens));
  const raw = Array.from({ length: DIMENSIONS }, () => prng.next() * 2 - 1);
  const norm = Math.hypot(...raw);
  return raw.map((value) => value / norm);
}

function base64(vector: readonly number[]): string {
  return Buffer.from(Float32Array.from(vector).buffer).toString('base64');
}

/** `done` is called when nothing more will happen on this exchange. Throws ApiError. */
export function answerEmbeddings(exchange: Exchange, { options, prng, slowdown }: SimContext, done: () => void): void {
  const body = readJsonBody(exchange);
  if (!isRecord(body)) throw validationError('model_attributes_type', [], 'Input should be a valid dictionary');
  const { model } = readModel(body, options);
  const inputs = readInputs(body['input']);
  for (const tokens of inputs) checkLength({ tokens, media: [] }, undefined, options.maxModelLen);
  const total = inputs.reduce((sum, tokens) => sum + tokens.length, 0);
  const { prefillBaseMs, prefillMsPerToken } = options.timing;
  const timer = setTimeout(() => {
    exchange.inferenceJson({
      id: `embd-${exchange.header('x-request-id') ?? randomId(prng)}`,
      object: 'list',
      created: Math.floor(Date.now() / 1000),
      model,
      data: inputs.map((tokens, index) => {
        const vector = embed(tokens);
        return { index, object: 'embedding', embedding: body['encoding_format'] === 'base64' ? base64(vector) : vector };
      }),
      usage: { prompt_tokens: total, total_tokens: total, completion_tokens: 0, prompt_tokens_details: null },
    });
    done();
  }, ((prefillBaseMs + total * prefillMsPerToken) * slowdown()) / options.speed);
  exchange.onAbort(() => {
    clearTimeout(timer);
    done();
  });
}
