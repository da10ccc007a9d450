/** The routes of a simulated instance that generate. What one of them does to a fault or a counter, all do. */
import { API_PATHS, type Api } from '#shared/vocabulary.ts';

export type SimApi = Api | 'responses' | 'messages';

export const MESSAGES_PATH = '/v1/messages';

const SIM_API_PATHS: Readonly<Record<SimApi, string>> = { ...API_PATHS, responses: '/v1/responses', messages: MESSAGES_PATH };

/** By path. */
export const SIM_API_OF_PATH: ReadonlyMap<string, SimApi> = new Map(
  (Object.entries(SIM_API_PATHS) as [SimApi, string][]).map(([api, path]) => [path, api]),
);

/** What the request id of a route begins with (protocol facts: serve/engine/serving.py). */
export const ID_PREFIX: Readonly<Record<SimApi, string>> = {
  chat: 'chatcmpl-',
  completions: 'cmpl-',
  generate: 'generate-tokens-',
  responses: 'resp_',
  messages: 'chatcmpl-',
};
