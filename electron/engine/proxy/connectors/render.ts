/**
 * Render, then generate: the prompt is turned into token ids once (POST /v1/.../render), prefill and decode are driven
 * with these ids on /inference/v1/generate as a NIXL pull, and tokens become the text of an OpenAI answer again: a whole
 * answer by the engine's derender route, a stream by decoding tokens as they come (POST /detokenize).
 *
 * Invariants: a request is rendered once, whatever is repeated; what cannot be done with token ids without changing the
 * answer goes to a decode instance as it is, and is reported; a client's own generate request is already rendered.
 */
import { BufferedAnswer } from '../buffered-answer.ts';
import type { ClientRequest } from '../client-request.ts';
import { scanMembers } from '../json-members.ts';
import { describeLeg, ProxyError } from '../proxy-error.ts';
import { reemitAsStream } from '../reemit-stream.ts';
import { parseTokenIds } from '../token-ids.ts';
import type { Answer, Connector, ConnectorServices, LegAnswer, LegContext, LegTarget } from './connector.ts';
import { runNixl } from './nixl.ts';
import { ChunkWriter } from './render/chunk-writer.ts';
import { decodedAnswer } from './render/decoded-answer.ts';
import { DERENDER_PATHS, derenderBody, finishDerendered } from './render/derender.ts';
import { isMissingRoute, missingRouteError, missingRouteVerdict, notParsedVerdict, notRenderedVerdict, reasonAgainstRendering, reasonForWhole, RENDER_PATHS } from './render/render-rules.ts';
import { RenderedContext } from './render/rendered-context.ts';
import { renderedRequest, type RenderedRequest } from './render/rendered-request.ts';
import { textService } from './render/text-service.ts';
import { TextStream } from './render/text-stream.ts';

/** Since the engine started. */
interface Counts {
  rendered: number;
  /** Sent to decode as they were. */
  unrendered: number;
  /** Streams whose text is decoded as it comes. */
  streams: number;
  decodeCalls: number;
  decodedTokens: number;
}

/** One try of one request. */
interface Run {
  readonly context: LegContext;
  readonly counts: Counts;
}

export function createRender({ fleet }: ConnectorServices): Connector {
  const counts: Counts = { rendered: 0, unrendered: 0, streams: 0, decodeCalls: 0, decodedTokens: 0 };
  return {
    name: 'render',
    legs: ['prefill', 'decode'],
    // Any instance has the tokenizer; prefill instances have the time, and the prompt's prefix.
    refuses: (instance, kind) =>
      kind === 'render' && instance.role === 'decode' && fleet.list().some(({ role }) => role === 'prefill' || role === 'both')
        ? 'prefill instances render'
        : undefined,
    rendersPrompt: (request) => request.api !== 'generate' && reasonAgainstRendering(request) === undefined,
    run: (context) => (context.request.api === 'generate' ? runNixl(context) : runRendered({ context, counts })),
    status: () => ({
      connector: 'render',
      summary: 'The prompt is rendered to token ids once; prefill and decode are driven with them (NIXL pull), and tokens become text again.',
      notices: NOTICES,
      facts: [
        { title: 'Requests rendered', value: counts.rendered },
        { title: 'Requests sent unrendered', value: counts.unrendered },
        { title: 'Streams decoded', value: counts.streams },
        { title: 'Calls of /detokenize', value: counts.decodeCalls },
        { title: 'Tokens per call', value: counts.decodeCalls === 0 ? null : Math.round((counts.decodedTokens / counts.decodeCalls) * 10) / 10 },
      ],
      tables: [],
    }),
  };
}

const NOTICES = [
  {
    severity: 'info',
    message: 'Engines must serve /v1/chat/completions/render, /derender and /inference/v1/generate: vLLM after 0.29 needs --enable-scale-out, its Rust frontend has no render route.',
  },
  {
    severity: 'info',
    message: [
      'Differs from a direct request: streamed text is decoded by /detokenize, one call for the tokens at hand, so it arrives a call later, special tokens in',
      'the middle of an answer are visible and reasoning stays in the content; streams have no system_fingerprint. Requests with tools, response_format,',
      'logprobs or a wish for reasoning are generated whole, parsed by the engine, and streamed afterwards. Several prompts, echo, prompt_logprobs,',
      'return_token_ids, best_of and suffix go to a decode instance as they are.',
    ].join(' '),
  },
] as const;

/** Rendered requests by the client's, so that a repeated pair of legs does not render again. */
const renderedOf = new WeakMap<ClientRequest, RenderedRequest>();

async function runRendered(run: Run): Promise<Answer> {
  const { context, counts } = run;
  const { request } = context;
  const reason = reasonAgainstRendering(request);
  if (reason !== undefined) {
    counts.unrendered++;
    return sendAsItIs(context, reason);
  }
  let rendered = renderedOf.get(request);
  if (rendered === undefined) {
    rendered = await naming(context, RENDER_PATHS[textApi(request)], () => render(context));
    renderedOf.set(request, rendered);
    counts.rendered++;
    const tokens = context.prompt?.wantsTokens === true ? parseTokenIds(rendered.tokenIds) : undefined;
    if (tokens !== undefined) context.prompt?.learn(tokens, 'render');
  }
  const legs = new RenderedContext(context, rendered);
  const tokens = await naming(context, '/inference/v1/generate', () => runNixl(legs));
  if (rendered.request.isStream) return textOf(run, { rendered, tokens, target: legs.decodeTarget });
  const { whole } = legs;
  if (whole === undefined) throw new Error('the decode leg of a rendered request was not read');
  const body = await textOfWhole(run, { rendered, whole, target: legs.decodeTarget });
  if (!request.isStream) return new BufferedAnswer(body, whole.rawHeaders);
  return reemitAsStream({ ...whole, body, members: scanMembers(body) ?? [] }, request);
}

interface WholeTokens {
  readonly rendered: RenderedRequest;
  readonly whole: LegAnswer;
  readonly target: LegTarget | undefined;
}

/** The client's answer from tokens: by the engine's parsers, or decoded only when it has no such route and none are needed. */
async function textOfWhole(run: Run, { rendered, whole, target }: WholeTokens): Promise<Buffer> {
  const { context } = run;
  const { request } = context;
  const path = DERENDER_PATHS[textApi(request)];
  const rewrites = [{ field: '(body)', to: 'the tokens, to be parsed and decoded' }];
  const body = derenderBody(request, rendered, whole);
  const send = (to: LegTarget): Promise<LegAnswer> => context.call({ kind: 'render', ...to, path, body, rewrites });
  try {
    const derendered = await context.repeat('render', send, { prefer: rendered.instance });
    return finishDerendered(request, rendered, { generated: whole, derendered });
  } catch (error) {
    if (!isMissingRoute(error)) throw error;
    const reason = reasonForWhole(request);
    if (reason !== undefined) throw reported(context, missingRouteError(error, path));
    context.report(notParsedVerdict(error, path));
    return decodedAnswer({ client: request, rendered, generated: whole, decode: decoder(run, rendered, target) });
  }
}

function textApi({ api }: ClientRequest): 'chat' | 'completions' {
  return api === 'completions' ? 'completions' : 'chat';
}

function render(context: LegContext): Promise<RenderedRequest> {
  const { request } = context;
  const path = RENDER_PATHS[textApi(request)];
  const isStream = request.isStream && reasonForWhole(request) === undefined;
  return context.repeat('render', async (target) => {
    const answer = await context.call({ kind: 'render', ...target, path, body: request.body, rewrites: [] });
    const rendered = renderedRequest(request, answer, { instance: target.instance, isStream });
    if (rendered !== undefined) return rendered;
    const message = `${describeLeg('render', target.instance)} answered ${path} with something other than one prompt's token ids.`;
    throw new ProxyError(502, 'bad_response', message, { leg: 'render', instance: target.instance });
  });
}

function sendAsItIs(context: LegContext, reason: string): Promise<Answer> {
  context.report(notRenderedVerdict(reason));
  const rewrites = [{ field: '(render and prefill legs)', to: `left out: ${reason}` }];
  return context.repeat('decode', (target) => context.open({ kind: 'decode', ...target, body: context.request.body, rewrites }));
}

interface TokenStream {
  readonly rendered: RenderedRequest;
  readonly tokens: Answer;
  /** Where they come from: it decodes them as well. */
  readonly target: LegTarget | undefined;
}

function textOf(run: Run, { rendered, tokens, target }: TokenStream): Answer {
  const { context, counts } = run;
  const { api, requestId } = context.request;
  counts.streams++;
  return new TextStream({
    tokens,
    writer: new ChunkWriter({ api, requestId, model: rendered.model, createdAtUnixS: Math.floor(Date.now() / 1000) }),
    promptTail: rendered.promptTail,
    stop: rendered.stop,
    decode: decoder(run, rendered, target),
    cancel: (error) => context.cancelLegs(error),
  });
}

function decoder({ context, counts }: Run, rendered: RenderedRequest, target: LegTarget | undefined): (tokens: readonly number[]) => Promise<string> {
  const decode = textService({ context, instance: target?.instance ?? rendered.instance, other: rendered.instance, model: rendered.model });
  return (tokens) => {
    counts.decodeCalls++;
    counts.decodedTokens += tokens.length;
    return decode(tokens);
  };
}

/** An engine without the route is a finding, and the client learns which route it is. */
async function naming<T>(context: LegContext, path: string, send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (error) {
    if (!isMissingRoute(error)) throw error;
    throw reported(context, missingRouteError(error, path));
  }
}

function reported(context: LegContext, failure: ProxyError): ProxyError {
  context.report(missingRouteVerdict(failure));
  return failure;
}
