/** What a filter can ask about a request row. */
import { SEVERITIES } from '../findings.ts';
import { REQUEST_STATES, type RequestRow, type RouteStep } from '../request.ts';
import { CONNECTORS, LEG_KINDS, RECORDED_APIS, type LegKind } from '../vocabulary.ts';
import type { FilterField } from './field.ts';

const AFTER = { over: 'after', under: 'before' } as const;

/** Names and ids of the instances of a route, of one leg kind or of all. */
function instances(route: readonly RouteStep[], kind?: LegKind): readonly string[] {
  return route.filter((step) => kind === undefined || step.kind === kind).flatMap((step) => [step.name, step.instance]);
}

/** Data-parallel ranks that legs were pinned to. */
function ranks(route: readonly RouteStep[]): readonly number[] | undefined {
  const pinned = route.flatMap((step) => (step.rank === undefined ? [] : [step.rank]));
  return pinned.length === 0 ? undefined : pinned;
}

function cachedPercent(row: RequestRow): number | undefined {
  if (row.cachedTokens === undefined || row.promptTokens === undefined || row.promptTokens === 0) return undefined;
  return (100 * row.cachedTokens) / row.promptTokens;
}

/** Keys of the Requests view, in the order in which they are suggested. */
export const REQUEST_FILTER_FIELDS: readonly FilterField<RequestRow>[] = [
  { key: 'status', type: 'number', unit: 'count', hasClasses: true, says: 'status', summary: 'HTTP status the client got: 200, 5xx', isText: true, get: (row) => row.status },
  { key: 'state', type: 'enum', values: REQUEST_STATES, says: 'state', summary: 'running, ok, error or aborted', isText: true, get: (row) => row.state },
  { key: 'instance', type: 'string', match: 'exact', says: 'instance', summary: 'An instance of the route, any leg: P0', isText: true, get: (row) => instances(row.route) },
  { key: 'prefill', type: 'string', match: 'exact', says: 'prefill on', summary: 'Instance of the prefill leg: P0', get: (row) => instances(row.route, 'prefill') },
  { key: 'decode', type: 'string', match: 'exact', says: 'decode on', summary: 'Instance of the decode leg: D0', get: (row) => instances(row.route, 'decode') },
  { key: 'rank', type: 'numbers', says: 'rank', summary: 'Data-parallel rank that a leg was pinned to: rank:1', get: (row) => ranks(row.route) },
  { key: 'role', aliases: ['leg'], type: 'enum', values: LEG_KINDS, says: 'leg', summary: 'Has a leg of this kind: encode, render, prefill, decode, forward', get: (row) => row.route.map((step) => step.kind) },
  { key: 'model', type: 'string', match: 'substring', says: 'model', summary: 'Part of the model name', isText: true, get: (row) => row.model },
  { key: 'api', type: 'enum', values: RECORDED_APIS, says: 'API', summary: 'chat, completions, generate, or forward: a route without P/D', isText: true, get: (row) => row.api },
  { key: 'path', type: 'string', match: 'substring', says: 'path', summary: 'Part of the path of a forwarded request: embeddings', isText: true, get: (row) => row.path },
  { key: 'connector', type: 'enum', values: CONNECTORS, says: 'connector', summary: 'P/D protocol in use', isText: true, get: (row) => row.connector },
  { key: 'stream', type: 'boolean', says: 'streaming', summary: 'Whether the client asked for a stream: yes, no', get: (row) => row.isStream },
  { key: 'ttft', type: 'number', unit: 'ms', words: AFTER, says: 'first token', summary: 'Time to first token: ttft>500, ttft>0.5s', get: (row) => row.ttftMs },
  { key: 'itl', type: 'number', unit: 'ms', says: 'inter-token latency', summary: 'Median gap between chunks', get: (row) => row.itlMs },
  { key: 'tpot', type: 'number', unit: 'ms', says: 'time per output token', summary: '(E2EL - TTFT) / (tokens - 1)', get: (row) => row.tpotMs },
  { key: 'e2el', aliases: ['duration'], type: 'number', unit: 'ms', says: 'whole request', summary: 'End-to-end latency', get: (row) => row.e2elMs },
  { key: 'think', aliases: ['prefillms'], type: 'number', unit: 'ms', says: 'prefill leg', summary: 'Duration of the prefill leg', get: (row) => row.prefillMs },
  { key: 'handoff', type: 'number', unit: 'ms', says: 'handoff', summary: 'End of the prefill response to decode request sent', get: (row) => row.handoffMs },
  { key: 'prompt', type: 'number', unit: 'count', says: 'prompt tokens', summary: 'Prompt tokens as reported: prompt>4k', get: (row) => row.promptTokens },
  { key: 'cached', type: 'number', unit: 'percent', says: 'cached share', summary: 'Share of the prompt found in the prefill cache: cached<10%', get: cachedPercent },
  { key: 'tokens', type: 'number', unit: 'count', says: 'output tokens', summary: 'Completion tokens as reported', get: (row) => row.completionTokens },
  { key: 'chunks', type: 'number', unit: 'count', says: 'chunks', summary: 'Output chunks seen', get: (row) => row.chunks },
  { key: 'bytes', type: 'number', unit: 'bytes', says: 'response', summary: 'Bytes of the response: bytes>1MB', get: (row) => row.responseBytes },
  { key: 'body', type: 'number', unit: 'bytes', says: 'request body', summary: 'Bytes of the request body', get: (row) => row.requestBytes },
  { key: 'finding', type: 'enum', isNamed: true, values: SEVERITIES, says: 'worst finding', summary: 'Worst verdict on the request: error, warning, info', get: (row) => row.findings?.worst },
  { key: 'findings', type: 'number', unit: 'count', says: 'findings', summary: 'Verdicts on the request: findings>0', get: (row) => row.findings?.count ?? 0 },
  { key: 'retries', type: 'number', unit: 'count', says: 'retries', summary: 'Legs tried again on another instance: retries>0', get: (row) => row.retries },
  { key: 'error', type: 'string', match: 'substring', says: 'error', summary: 'Part of the error message; error:* has one', isText: true, get: (row) => row.error?.message },
  { key: 'code', type: 'string', match: 'exact', says: 'error code', summary: 'Stable error code: connect_failed', isText: true, get: (row) => row.error?.code },
  { key: 'failed', type: 'enum', isNamed: true, values: LEG_KINDS, says: 'failed leg', summary: 'Leg on which the request failed', get: (row) => row.error?.leg },
  { key: 'id', type: 'string', match: 'substring', says: 'id', summary: 'Part of the X-Request-Id', isText: true, get: (row) => [row.requestId, row.id] },
  { key: 'n', type: 'number', unit: 'count', says: 'number', summary: 'Running number since engine start', get: (row) => row.n },
  { key: 'simulated', type: 'boolean', says: 'simulated', summary: 'Served by simulated instances: yes, no', get: (row) => row.isSimulated },
  { key: 'probe', type: 'boolean', says: "pdscope's own probe", summary: 'Sent by pdscope itself: yes, no', get: (row) => row.isOwnProbe },
];
