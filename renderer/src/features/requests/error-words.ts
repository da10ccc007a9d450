import type { RequestError, RequestRow } from '#shared/request.ts';

/** Which leg failed on which instance: `decode D1`; `pdscope` when it refused the request itself. */
function placeOf(error: RequestError): string {
  return error.leg === undefined ? 'pdscope' : `${error.leg}${error.instanceName === undefined ? '' : ` ${error.instanceName}`}`;
}

/** The whole message, with leg and instance in front unless it names them itself. */
export function errorWords(error: RequestError): string {
  const isNamed = error.leg !== undefined && error.message.includes(error.leg) && error.message.includes(error.instanceName ?? '');
  return isNamed ? error.message : `${placeOf(error)}: ${error.message}`;
}

/** What stands beside the bar of a row that did not end well, short: `decode D1: upstream reset`; undefined when it did or has not ended. */
export function failureWords(row: RequestRow): string | undefined {
  if (row.state === 'aborted') return 'the client went away';
  // The status is what an engine says first; where the client got another one, the row shows that beside its name.
  if (row.error?.code === 'upstream_status' && row.status !== undefined && row.status >= 400) return `${placeOf(row.error)}: answered ${row.status}`;
  if (row.error !== undefined) return `${placeOf(row.error)}: ${row.error.code.replaceAll('_', ' ')}`;
  return row.state === 'error' ? 'failed, cause not recorded' : undefined;
}
