/** Renders chat messages to prompt tokens the way Qwen's template does, with placeholder tokens for media. */
import { createHash } from 'node:crypto';
import { validationError } from './api-error.ts';
import type { MediaItem } from './sequence.ts';
import { encodeText, MEDIA_TOKEN, SPECIAL_TOKENS } from './tokenizer.ts';

/** Placeholder tokens per media item; real models use hundreds to thousands. */
const TOKENS_PER_MEDIA = 64;

export interface RenderedPrompt {
  readonly tokens: number[];
  readonly media: readonly MediaItem[];
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What identifies a media part: its uuid, else a digest of where or what it is. Undefined for text parts. */
function mediaHash(part: Readonly<Record<string, unknown>>): string | undefined {
  const { type, uuid } = part;
  if (type !== 'image_url' && type !== 'audio_url' && type !== 'video_url' && type !== 'input_audio' && type !== 'image_embeds') {
    return undefined;
  }
  if (typeof uuid === 'string') return uuid;
  const payload = part[type];
  const source = isRecord(payload) && typeof payload['url'] === 'string' ? payload['url'] : JSON.stringify(payload ?? null);
  return createHash('sha256').update(source).digest('hex').slice(0, 32);
}

function pushMedia(hash: string, tokens: number[], media: MediaItem[]): void {
  tokens.push(SPECIAL_TOKENS['<|vision_start|>']);
  media.push({ hash, start: tokens.length, length: TOKENS_PER_MEDIA });
  for (let count = 0; count < TOKENS_PER_MEDIA; count += 1) tokens.push(MEDIA_TOKEN);
  tokens.push(SPECIAL_TOKENS['<|vision_end|>']);
}

function pushContent(content: unknown, index: number, out: { readonly tokens: number[]; readonly media: MediaItem[] }): void {
  if (typeof content === 'string') {
    for (const token of encodeText(content)) out.tokens.push(token);
    return;
  }
  if (content === undefined || content === null) return;
  if (!Array.isArray(content)) {
    throw validationError('string_type', ['messages', String(index), 'content'], 'Input should be a valid string');
  }
  for (const part of content as readonly unknown[]) {
    if (!isRecord(part)) continue;
    const hash = mediaHash(part);
    if (hash !== undefined) pushMedia(hash, out.tokens, out.media);
    else if (typeof part['text'] === 'string') for (const token of encodeText(part['text'])) out.tokens.push(token);
  }
}

export interface RenderInput {
  readonly messages: unknown;
  readonly tools?: unknown;
  /** Ends with the opening of the assistant's turn. Default true. */
  readonly addGenerationPrompt?: boolean;
}

/** Throws ApiError on messages that are missing or malformed. */
export function renderChat({ messages, tools, addGenerationPrompt = true }: RenderInput): RenderedPrompt {
  if (messages === undefined) throw validationError('missing', ['messages'], 'Field required');
  if (!Array.isArray(messages)) throw validationError('list_type', ['messages'], 'Input should be a valid list');
  const tokens: number[] = [];
  const media: MediaItem[] = [];
  const push = (text: string): void => {
    for (const token of encodeText(text)) tokens.push(token);
  };
  if (Array.isArray(tools) && tools.length > 0) push(`<|im_start|>system\n# Tools\n\n${JSON.stringify(tools)}<|im_end|>\n`);
  for (const [index, message] of (messages as readonly unknown[]).entries()) {
    if (!isRecord(message)) throw validationError('dict_type', ['messages', String(index)], 'Input should be a valid dictionary');
    const { role } = message;
    if (typeof role !== 'string') throw validationError('missing', ['messages', String(index), 'role'], 'Field required');
    push(`<|im_start|>${role}\n`);
    pushContent(message['content'], index, { tokens, media });
    if (message['tool_calls'] !== undefined) push(JSON.stringify(message['tool_calls']));
    push('<|im_end|>\n');
  }
  if (addGenerationPrompt) push('<|im_start|>assistant\n');
  return { tokens, media };
}
