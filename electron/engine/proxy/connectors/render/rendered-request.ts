/**
 * What `/v1/.../render` answered, as a generate request: the prompt's token ids with sampling parameters, made once per
 * client request (GenerateRequest in vllm/entrypoints/scale_out/token_in_token_out/protocol.py). Token ids stay bytes.
 */
import type { Instance } from '../../../fleet/instance.ts';
import { asJsonObject, type ClientRequest } from '../../client-request.ts';
import { editMembers, memberValue, scanElements, scanMembers } from '../../json-members.ts';
import type { LegAnswer } from '../connector.ts';
import { OVERLAP_TOKENS } from './detokenizer.ts';
import type { StopRules } from './stop-text.ts';

export interface RenderedRequest {
  /** Where it was rendered. */
  readonly instance: Instance;
  /** As if the client had sent it to /inference/v1/generate. */
  readonly request: ClientRequest;
  /** Last ids of the prompt, at most OVERLAP_TOKENS. */
  readonly promptTail: readonly number[];
  /** JSON text. */
  readonly tokenIds: Buffer;
  readonly model: string | undefined;
  readonly stop: StopRules;
}

/** Parsed for decisions; token ids and media stay as they are. */
const PARSED_FIELDS = ['sampling_params', 'model'] as const;

export interface RenderOptions {
  readonly instance: Instance;
  /** Whether tokens are to come as a stream. */
  readonly isStream: boolean;
}

/** undefined when the answer is no rendered prompt: other JSON, several prompts, or no token ids. */
export function renderedRequest(client: ClientRequest, answer: LegAnswer, { instance, isStream }: RenderOptions): RenderedRequest | undefined {
  const rendered = onlyObject(answer.body);
  const all = rendered === undefined ? undefined : scanMembers(rendered);
  if (rendered === undefined || all === undefined) return undefined;
  const tokenIds = memberValue(rendered, all, 'token_ids');
  const promptTail = tokenIds === undefined ? undefined : lastIds(tokenIds);
  if (tokenIds === undefined || promptTail === undefined) return undefined;
  const json: Record<string, unknown> = {};
  for (const field of PARSED_FIELDS) {
    const value = memberValue(rendered, all, field);
    if (value !== undefined) json[field] = parseOrNothing(value);
  }
  const body = editMembers(
    rendered,
    all,
    new Map<string, string | undefined>([
      // X-Request-Id names the request, as on every leg.
      ['request_id', undefined],
      ['token_offsets', undefined],
      ['assistant_tokens_mask', undefined],
      ['kv_transfer_params', undefined],
      ['stream', String(isStream)],
      ...(isStream ? [] : [['stream_options', undefined] as const]),
    ]),
  );
  const members = scanMembers(body);
  if (members === undefined) return undefined;
  for (const { key } of members) json[key] ??= null;
  json['stream'] = isStream;
  const model = json['model'] ?? client.json['model'];
  return {
    instance,
    request: { api: 'generate', requestId: client.requestId, headers: client.headers, body, json, members, isStream },
    promptTail,
    tokenIds,
    model: typeof model === 'string' ? model : undefined,
    stop: stopRules(asJsonObject(json['sampling_params']) ?? {}),
  };
}

/** Completions are rendered as a list with one entry per prompt. */
function onlyObject(body: Buffer): Buffer | undefined {
  const list = scanElements(body);
  if (list === undefined) return body;
  return list.length === 1 ? list[0] : undefined;
}

/** Reads the last numbers only: a prompt may have a million. */
function lastIds(tokenIds: Buffer): readonly number[] | undefined {
  const text = tokenIds.toString('latin1', Math.max(0, tokenIds.length - 128));
  const ids = text.match(/\d+(?=\s*[,\]])/g)?.slice(-OVERLAP_TOKENS);
  return ids?.map(Number);
}

function parseOrNothing(value: Buffer): unknown {
  try {
    return JSON.parse(value.toString('utf8')) as unknown;
  } catch {
    return undefined;
  }
}

function stopRules(sampling: Readonly<Record<string, unknown>>): StopRules {
  const { stop } = sampling;
  const list: readonly unknown[] = Array.isArray(stop) ? stop : [stop];
  return {
    strings: list.filter((one): one is string => typeof one === 'string' && one !== ''),
    isIncluded: sampling['include_stop_str_in_output'] === true,
  };
}
