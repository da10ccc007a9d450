/**
 * `GET /query` of a Mooncake bootstrap server, as proxies see it (vllm/distributed/kv_transfer/kv_connector/v1/mooncake/
 * mooncake_utils.py): per data-parallel rank the engine id and the addresses of its workers. It grows while they register.
 */
import type { Dispatcher } from 'undici';
import { z } from 'zod';
import { PdscopeError } from '#shared/errors.ts';
import { MAX_RANKS } from '#shared/instance.ts';
import { describeConnectError } from '../../../fleet/connect-error.ts';
import { httpGet } from '../../../fleet/http-get.ts';

/** One data-parallel rank. */
export interface BootstrapRank {
  readonly rank: number;
  readonly engineId: string;
  /** Tensor-parallel ranks with a worker, and the fewest pipeline-parallel workers among them. */
  readonly tp: number;
  readonly pp: number;
}

/** Either what the server told, or why it did not, in words. */
export type BootstrapAnswer =
  | { readonly ranks: readonly BootstrapRank[] }
  | { readonly problem: string; /** Nothing listens there: the process that ran it is gone. */ readonly isGone: boolean };

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

const TableSchema = z.record(
  z.string().regex(/^\d{1,6}$/),
  z.object({ engine_id: z.string().min(1).max(1024), worker_addr: z.record(z.string(), z.record(z.string(), z.string())) }),
);

export interface BootstrapQueryOptions {
  readonly dispatcher: Dispatcher;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Asks once. @param address `http://host:port`. Never rejects. */
export async function queryBootstrap(address: string, options: BootstrapQueryOptions): Promise<BootstrapAnswer> {
  try {
    const { status, text } = await httpGet(`${address}/query`, { ...options, headers: { accept: 'application/json' }, maxBytes: MAX_ANSWER_BYTES });
    if (status !== 200) return { problem: `it answered ${status}: is this the bootstrap port?`, isGone: false };
    const ranks = readTable(text);
    return ranks === undefined ? { problem: 'its answer is no table of engine ids: is this the bootstrap port?', isGone: false } : { ranks };
  } catch (error) {
    if (error instanceof PdscopeError) return { problem: error.message, isGone: false };
    const { kind, text } = describeConnectError(error);
    return { problem: text, isGone: kind === 'refused' };
  }
}

/** Ranks in order; undefined when `text` is something else. */
export function readTable(text: string): readonly BootstrapRank[] | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // Said by the caller.
    return undefined;
  }
  const table = TableSchema.safeParse(json);
  if (!table.success) return undefined;
  const entries = Object.entries(table.data);
  if (entries.length > MAX_RANKS) return undefined;
  return entries
    .map(([rank, { engine_id: engineId, worker_addr: workers }]) => {
      const depths = Object.values(workers).map((stages) => Object.keys(stages).length);
      return { rank: Number(rank), engineId, tp: depths.length, pp: depths.length === 0 ? 0 : Math.min(...depths) };
    })
    .toSorted((a, b) => a.rank - b.rank);
}
