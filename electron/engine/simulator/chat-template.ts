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

type Part = Readonly<Record<string, unknown>>;

const MODALITIES: Readonly<Record<string, MediaItem['modality']>> = {
  image_url: 'image',
  image_embeds: 'image',
  audio_url: 'audio',
  input_audio: 'audio',
  video_url: 'video',
};

/** What identifies a media part: its uuid, else a digest of where or what it is (`file://` is not opened). */
function mediaHash(part: Part, type: string): string {
  const { uuid } = part;
  if (typeof uuid === 'string') return uuid;
  const payload = part[type];
  const source = isRecord(payload) && typeof payload['url'] === 'string' ? payload['url'] : JSON.stringify(payload ?? null);
  return createHash('sha256').update(source).digest('hex').slice(0, 32);
}

function pushMedia({ hash, modality }: Pick<MediaItem, 'hash' | 'modality'>, tokens: number[], media: MediaItem[]): void {
  tokens.push(SPECIAL_TOKENS['<|vision_start|>']);
  media.push({ hash, modality, start: tokens.length, length: TOKENS_PER_MEDIA });
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
    const type = typeof part['type'] === 'string' ? part['type'] : '';
    const modality = MODALITIES[type];
    if (modality !== undefined) pushMedia({ hash: mediaHash(part, type), modality }, out.tokens, out.media);
    else if (typeof part['text'] === 'string') for (const token of encodeText(part['text'])) out.tokens.push(token);
  }
}

export interface RenderInput {
  readonly messages: unknown;
  readonly tools?: unknown;
  /** Ends with the opening of the assistant's turn. Default true. */
  readonly addGenerationPrompt?: boolean;
  /** The template opens the reasoning (`chat_template_kwargs.enable_thinking`). Default false. */
  readonly isThinking?: boolean;
}

/** Templates of thinking models leave the reasoning of earlier turns out: the next prompt does not extend the last answer. */
function withoutReasoning(role: string, content: unknown): unknown {
  if (role !== 'assistant' || typeof content !== 'string') return content;
  const end = content.lastIndexOf('</think>');
  return end < 0 ? content : content.slice(end + '</think>'.length).trimStart();
}

/** Throws ApiError on messages that are missing or malformed. */
export function renderChat({ messages, tools, addGenerationPrompt = true, isThinking = false }: RenderInput): RenderedPrompt {
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
    pushContent(withoutReasoning(role, message['content']), index, { tokens, media });
    if (message['tool_calls'] !== undefined) push(JSON.stringify(message['tool_calls']));
    push('<|im_end|>\n');
  }
  if (addGenerationPrompt) push(`<|im_start|>assistant\n${isThinking ? '<think>' : ''}`);
  return { tokens, media };
}
