import type { RequestError, RequestRow } from '#shared/request.ts';

/** Which leg and instance failed and how, short: `decode D1: connection refused`. */
export function errorWords(error: RequestError): string {
  const where = error.leg === undefined ? 'pdscope' : `${error.leg}${error.instanceName === undefined ? '' : ` ${error.instanceName}`}`;
  return `${where}: ${error.message}`;
}

/** What stands beside the bar of a row that did not end well; undefined when it did or has not ended. */
export function failureWords(row: RequestRow): string | undefined {
  if (row.state === 'aborted') return 'the client went away';
  if (row.error !== undefined) return errorWords(row.error);
  return row.state === 'error' ? 'failed, cause not recorded' : undefined;
}
