/**
 * The encode stage (E in E-P-D): before any connector, every media part of a chat request becomes a request of its own
 * to an encode instance, all at the same time; prefill and decode then find the embeddings in the encoder cache
 * (`--ec-transfer-config`). Flow and child ids as in vLLM's examples/disaggregated/disaggregated_encoder proxies.
 *
 * Invariants: one leg per part, equal URLs included; all must succeed, the first failure ends the request with its own
 * status and stops the rest. The part is the client's very bytes and the client's own request goes on unchanged, so that
 * the encode instance and the others hash the same media: `file://` and `data:` URLs are passed through, never opened.
 *
 * A leg is capped to one token, as in vLLM's first example and in llm-d. Today's example sends no cap, because an
 * encoder-only instance is finished once it has encoded; an instance with the whole model (`ec_producer` without
 * `--mm-encoder-only`) would go on to its length limit.
 */
import { randomBytes } from 'node:crypto';
import { API_PATHS } from '#shared/vocabulary.ts';
import type { LegScheduler } from '../fleet/ports.ts';
import { asJsonObject, type ClientRequest } from './client-request.ts';
import type { LegContext, LegTarget } from './connectors/connector.ts';
import { memberValue, scanElements, scanMembers } from './json-members.ts';
import { ProxyError } from './proxy-error.ts';

/** What the stage needs besides legs: a look at the fleet before any work is done. */
export type EncodeContext = LegContext & { readonly scheduler: LegScheduler };

/** More parts than any model takes; refused instead of cut, because a part left out would change the answer. */
const MAX_MEDIA_PARTS = 1000;

/**
 * Content parts that hold media in the raw, and the field that holds it (MM_PARSER_MAP in vllm/entrypoints/chat_utils.py).
 * `*_embeds` parts are encoded already. The engine also takes parts without `type` that have one of these fields.
 */
const MEDIA_FIELDS: Readonly<Record<string, string>> = {
  image_url: 'image_url',
  input_image: 'image_url',
  audio_url: 'audio_url',
  input_audio: 'input_audio',
  video_url: 'video_url',
};

/** Besides model and messages: what shapes how media are read, processed and hashed, and templates that models may lack. */
const KEPT_FIELDS = ['model', 'mm_processor_kwargs', 'media_io_kwargs', 'chat_template', 'chat_template_kwargs', 'chat_template_content_format', 'priority'] as const;

/**
 * Runs the encode legs of a request with media; undefined when there is nothing to do: no encode instance is
 * registered, or the request has no media. Rejects with ProxyError: that of the first leg that failed, 503
 * `no_instance` when encode instances are registered but none can be used, 400 `too_many_media`.
 */
export function runEncodeStage(context: EncodeContext): Promise<void> | undefined {
  const { request, scheduler } = context;
  if (request.api !== 'chat') return undefined;
  const { routable, excluded } = scheduler.candidates('encode');
  if (routable.length === 0 && excluded.length === 0) return undefined;
  const places = findMedia(request.json['messages']);
  return places.length === 0 ? undefined : encodeAll(context, places);
}

async function encodeAll(context: EncodeContext, places: readonly MediaPlace[]): Promise<void> {
  const { request } = context;
  if (places.length > MAX_MEDIA_PARTS) {
    const message = `The request has ${places.length} media parts; at most ${MAX_MEDIA_PARTS} are encoded for one request.`;
    throw new ProxyError(400, 'too_many_media', message, { param: 'messages' });
  }
  await Promise.all(encodeBodies(request, places).map((body, index) => encodePart(context, body, { index, place: places[index] })));
}

async function encodePart(context: EncodeContext, body: Buffer, part: { readonly index: number; readonly place: MediaPlace | undefined }): Promise<void> {
  const { index, place } = part;
  const { requestId } = context.request;
  const send = (target: LegTarget): Promise<unknown> =>
    context.call({
      kind: 'encode',
      ...target,
      path: API_PATHS.chat,
      body,
      headers: { 'x-request-id': `${requestId}:${index}:${randomBytes(3).toString('hex')}` },
      rewrites: [{ field: 'messages', to: `only messages[${place?.message}].content[${place?.part}]` }],
    });
  await context.repeat('encode', send);
}

export interface MediaPlace {
  readonly message: number;
  readonly part: number;
}

/** Where the media of a chat request are. A message whose content is a string costs one look. */
export function findMedia(messages: unknown): readonly MediaPlace[] {
  const places: MediaPlace[] = [];
  if (!Array.isArray(messages)) return places;
  for (const [message, entry] of messages.entries()) {
    const content: unknown = (entry as { readonly content?: unknown } | null)?.content;
    if (!Array.isArray(content)) continue;
    for (const [part, value] of content.entries()) if (isMedia(value)) places.push({ message, part });
  }
  return places;
}

/** A part with a `uuid` and no data refers to what the engine already has: there is nothing to encode. */
function isMedia(part: unknown): boolean {
  const fields = asJsonObject(part);
  if (fields === undefined) return false;
  const { type } = fields;
  if (typeof type === 'string') {
    const field = MEDIA_FIELDS[type];
    return field !== undefined && hasData(fields[field]);
  }
  return hasData(fields['image_url']) || hasData(fields['audio_url']) || hasData(fields['input_audio']) || hasData(fields['video_url']);
}

function hasData(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** One body per place, cut out of the client's bytes. Throws ProxyError 400 when the bytes and their parsed form disagree. */
export function encodeBodies({ body, members }: ClientRequest, places: readonly MediaPlace[]): readonly Buffer[] {
  const kept = KEPT_FIELDS.flatMap((field) => {
    const value = memberValue(body, members, field);
    return value === undefined ? [] : [Buffer.from(`"${field}":`), value, COMMA];
  });
  const messages = elements(memberValue(body, members, 'messages'));
  let current: { readonly message: number; readonly role: Buffer; readonly parts: readonly Buffer[] } | undefined;
  return places.map(({ message, part }) => {
    if (current?.message !== message) current = { message, ...partsOf(messages[message]) };
    const bytes = current.parts[part];
    if (bytes === undefined) throw unreadable();
    return Buffer.concat([OPEN, ...kept, MESSAGES, current.role, CONTENT, bytes, CLOSE]);
  });
}

const OPEN = Buffer.from('{');
const COMMA = Buffer.from(',');
const MESSAGES = Buffer.from('"messages":[{"role":');
const CONTENT = Buffer.from(',"content":[');
const CLOSE = Buffer.from(']}],"stream":false,"max_tokens":1}');
const DEFAULT_ROLE = Buffer.from('"user"');

function partsOf(message: Buffer | undefined): { readonly role: Buffer; readonly parts: readonly Buffer[] } {
  const members = message === undefined ? undefined : scanMembers(message);
  if (message === undefined || members === undefined) throw unreadable();
  return { role: memberValue(message, members, 'role') ?? DEFAULT_ROLE, parts: elements(memberValue(message, members, 'content')) };
}

function elements(array: Buffer | undefined): readonly Buffer[] {
  const found = array === undefined ? undefined : scanElements(array);
  if (found === undefined) throw unreadable();
  return found;
}

function unreadable(): ProxyError {
  return new ProxyError(400, 'malformed_json', 'The media parts of messages cannot be found in the request body.', { param: 'messages' });
}
