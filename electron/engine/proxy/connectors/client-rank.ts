/** A data-parallel rank that the client pinned itself. */
import type { ClientRequest } from '../client-request.ts';
import { RANK_HEADER } from '../headers.ts';

/** As vLLM reads X-data-parallel-rank: what is no integer is ignored (vllm/entrypoints/openai/generate/base/serving.py). */
export function clientRank({ headers }: ClientRequest): number | undefined {
  const header = headers[RANK_HEADER];
  return typeof header === 'string' && /^\d{1,6}$/.test(header) ? Number(header) : undefined;
}
