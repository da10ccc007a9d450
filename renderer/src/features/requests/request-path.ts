import type { RequestRow } from '#shared/request.ts';
import { API_PATHS } from '#shared/vocabulary.ts';

/** Path of the proxy that a request came in on; undefined for a forwarded one whose path was not recorded. */
export function requestPath(row: Pick<RequestRow, 'api' | 'path'>): string | undefined {
  return row.path ?? (row.api === 'forward' ? undefined : API_PATHS[row.api]);
}
