import { PdscopeError } from '#shared/errors.ts';
import type { StreamId } from '#shared/ids.ts';

export function unknownStream(id: StreamId): PdscopeError {
  return new PdscopeError('kv_stream_unknown', `No KV event stream ${id} is attached; it may have been removed.`);
}
