/** Fetches the details of a set of requests for export, a few at a time, and turns them into one file. */
import type { RecordId } from '#shared/ids.ts';
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import { toHar } from './har.ts';
import { sanitizeDetail } from './sanitize.ts';

/** An export is for reading and passing on; sessions of everything are the engine's business. */
export const MOST_EXPORTED = 1000;
const AT_ONCE = 6;

export type ExportFormat = 'jsonl' | 'har';

export interface Collected {
  readonly details: readonly RequestDetail[];
  /** Rows whose detail was no longer there, or that were beyond the most. */
  readonly missing: number;
}

export interface CollectOptions {
  readonly get: (id: RecordId) => Promise<RequestDetail>;
  readonly onProgress: (done: number, of: number) => void;
  readonly signal: AbortSignal;
}

/** Details of the newest rows, in their order. A row that is gone meanwhile is counted, not invented. */
export async function collectDetails(rows: readonly RequestRow[], options: CollectOptions): Promise<Collected> {
  const wanted = rows.slice(-MOST_EXPORTED);
  const found: (RequestDetail | undefined)[] = Array.from({ length: wanted.length });
  let next = 0;
  let done = 0;
  const work = async (): Promise<void> => {
    while (next < wanted.length && !options.signal.aborted) {
      const index = next;
      next += 1;
      const row = wanted[index];
      if (row === undefined) return;
      try {
        found[index] = await options.get(row.id);
      } catch {
        found[index] = undefined;
      }
      done += 1;
      options.onProgress(done, wanted.length);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const details = found.filter((detail) => detail !== undefined);
  return { details, missing: rows.length - details.length };
}

export interface FileOptions {
  readonly withBodies: boolean;
  readonly version: string;
  readonly proxyUrl: string | undefined;
}

/** The text of the file: one JSON object per line, or a HAR log. */
export function exportText(format: ExportFormat, details: readonly RequestDetail[], options: FileOptions): string {
  const safe = details.map((detail) => sanitizeDetail(detail, options));
  if (format === 'har') return JSON.stringify(toHar(safe, options), undefined, 1);
  return safe.map((detail) => `${JSON.stringify(detail)}\n`).join('');
}
