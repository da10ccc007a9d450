/**
 * A whole token answer to a chat or completion answer, by the engine's own parsers: POST /v1/.../derender
 * (DerenderChatRequest, DerenderCompletionRequest in vllm/entrypoints/scale_out/token_in_token_out/protocol.py).
 */
import type { ClientRequest } from '../../client-request.ts';
import { asJsonObject } from '../../client-request.ts';
import { editMembers, memberValue, scanMembers } from '../../json-members.ts';
import type { LegAnswer } from '../connector.ts';
import { answerId } from './chunk-writer.ts';
import type { RenderedRequest } from './rendered-request.ts';
import { findStop } from './stop-text.ts';

export const DERENDER_PATHS = { chat: '/v1/chat/completions/derender', completions: '/v1/completions/derender' } as const;

/** The body of the derender call. */
export function derenderBody(client: ClientRequest, rendered: RenderedRequest, generated: LegAnswer): Buffer {
  const isChat = client.api === 'chat';
  const { promptTokens } = generated.facts.usage ?? {};
  const model = rendered.model === undefined ? '' : `"model":${JSON.stringify(rendered.model)},`;
  const tail = JSON.stringify(rendered.promptTail);
  const count = promptTokens === undefined ? '' : `"prompt_tokens":${isChat ? promptTokens : `[${promptTokens}]`},`;
  const original = editMembers(client.body, client.members, UNSTREAMED);
  return isChat
    ? Buffer.concat([Buffer.from(`{${model}${count}"prompt_token_ids":${tail},"chat_request":`), original, GENERATE_RESPONSE, generated.body, CLOSE])
    : Buffer.concat([Buffer.from(`{${model}${count}"prompt_token_ids":[${tail}],"completion_request":`), original, GENERATE_RESPONSES, generated.body, CLOSE_LIST]);
}

/** The request that comes with the tokens says how to parse them; it is validated like any other. */
const UNSTREAMED = new Map([
  ['stream', 'false'],
  ['stream_options', undefined],
]);
const GENERATE_RESPONSE = Buffer.from(',"generate_response":');
const GENERATE_RESPONSES = Buffer.from(',"generate_responses":[');
const CLOSE = Buffer.from('}');
const CLOSE_LIST = Buffer.from(']}');

/**
 * The derendered answer as the client would have got it: with the id of its own request, the engine's own usage, and
 * without the stop string that ended it, which is still among the tokens.
 */
export function finishDerendered(client: ClientRequest, rendered: RenderedRequest, answers: { readonly generated: LegAnswer; readonly derendered: LegAnswer }): Buffer {
  const { generated, derendered } = answers;
  const edits = new Map<string, string | Buffer | undefined>([['id', JSON.stringify(answerId(client.api, client.requestId))]]);
  const usage = memberValue(generated.body, generated.members, 'usage');
  if (usage !== undefined && scanMembers(usage) !== undefined) edits.set('usage', usage);
  const choices = memberValue(derendered.body, derendered.members, 'choices');
  if (rendered.stop.strings.length > 0 && choices !== undefined) {
    const cut = cutAtStop(choices, rendered);
    if (cut !== undefined) edits.set('choices', cut);
  }
  return editMembers(derendered.body, derendered.members, edits);
}

/** Parsed and printed again only when a stop string is there to be cut off. */
function cutAtStop(json: Buffer, { stop }: RenderedRequest): string | undefined {
  let hasCut = false;
  const choices: unknown = JSON.parse(json.toString('utf8'));
  if (!Array.isArray(choices)) return undefined;
  const finished = choices.map((choice: unknown) => {
    const fields = asJsonObject(choice);
    if (fields === undefined || fields['finish_reason'] !== 'stop') return choice;
    const message = asJsonObject(fields['message']);
    const text = message === undefined ? fields['text'] : message['content'];
    const match = typeof text === 'string' ? findStop(text, stop) : undefined;
    if (match === undefined || typeof text !== 'string') return choice;
    hasCut = true;
    const cut = text.slice(0, match.end);
    return { ...fields, ...(message === undefined ? { text: cut } : { message: { ...message, content: cut } }), stop_reason: fields['stop_reason'] ?? match.stop };
  });
  return hasCut ? JSON.stringify(finished) : undefined;
}
