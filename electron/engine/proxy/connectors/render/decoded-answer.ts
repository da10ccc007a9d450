/**
 * A whole token answer as a chat or completion answer without the engine's parsers: for engines that render but do not
 * derender. Text only; tool calls, reasoning and log probabilities need the derender route.
 */
import { asJsonObject, type ClientRequest } from '../../client-request.ts';
import { memberValue } from '../../json-members.ts';
import { ProxyError } from '../../proxy-error.ts';
import type { LegAnswer } from '../connector.ts';
import { ChoiceText } from './choice-text.ts';
import { answerId } from './chunk-writer.ts';
import { Detokenizer } from './detokenizer.ts';
import type { RenderedRequest } from './rendered-request.ts';

export interface DecodedAnswerOptions {
  readonly client: ClientRequest;
  readonly rendered: RenderedRequest;
  readonly generated: LegAnswer;
  readonly decode: (tokens: readonly number[]) => Promise<string>;
}

/** Throws ProxyError 502 when the answer has no choices. */
export async function decodedAnswer({ client, rendered, generated, decode }: DecodedAnswerOptions): Promise<Buffer> {
  const choices: unknown = JSON.parse(memberValue(generated.body, generated.members, 'choices')?.toString('utf8') ?? 'null');
  if (!Array.isArray(choices)) throw new ProxyError(502, 'bad_response', 'The decode leg\'s answer has no choices.');
  const isChat = client.api === 'chat';
  const written = await Promise.all(
    choices.map(async (value: unknown, at) => {
      const fields = asJsonObject(value) ?? {};
      const index = typeof fields['index'] === 'number' ? fields['index'] : at;
      const ids: readonly unknown[] = Array.isArray(fields['token_ids']) ? fields['token_ids'] : [];
      const reason = fields['finish_reason'];
      const choice = new ChoiceText(index, new Detokenizer(decode, rendered.promptTail), rendered.stop);
      choice.add(ids.filter((id): id is number => typeof id === 'number'), typeof reason === 'string' ? { reason, stopReason: fields['stop_reason'] } : undefined);
      choice.end();
      const { text, finish } = await choice.next();
      const content = isChat ? { message: { role: 'assistant', content: text } } : { text };
      return { index, ...content, logprobs: null, finish_reason: finish?.reason ?? null, stop_reason: finish?.stopReason ?? null };
    }),
  );
  const head = JSON.stringify({
    id: answerId(client.api, client.requestId),
    object: isChat ? 'chat.completion' : 'text_completion',
    created: Math.floor(Date.now() / 1000),
    model: rendered.model ?? null,
    choices: written,
  });
  const usage = memberValue(generated.body, generated.members, 'usage')?.toString('utf8') ?? 'null';
  return Buffer.from(`${head.slice(0, -1)},"usage":${usage}}`);
}
