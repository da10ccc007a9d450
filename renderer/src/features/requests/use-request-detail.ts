/** The detail of one request, asked for again as the request goes on: at most every 400 ms, whatever the row does. */
import { useEffect, useRef, useState } from 'react';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import { RecordIdSchema } from '#shared/ids.ts';
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import { useTransport } from '../../transport/transport-context.tsx';
import { ThrottledLoader } from '../../transport/throttled-loader.ts';

const LEAST_INTERVAL_MS = 400;
/** How often a running request that is not in the list is looked at, ms. */
const POLL_MS = 1000;

export interface DetailState {
  readonly detail: RequestDetail | undefined;
  /** Why there is no (newer) detail. */
  readonly error: PdscopeError | undefined;
}

interface Loaded extends DetailState {
  readonly id: string;
}

/**
 * @param id '' = none.
 * @param row The live row, when it is in the list; a change of it asks again. Without it a running request is polled.
 */
export function useRequestDetail(id: string, row: RequestRow | undefined): DetailState {
  const transport = useTransport();
  const [loaded, setLoaded] = useState<Loaded | undefined>();
  const loader = useRef<ThrottledLoader<RequestDetail>>(undefined);

  useEffect(() => {
    const parsed = RecordIdSchema.safeParse(id);
    if (!parsed.success) return undefined;
    const current = new ThrottledLoader({
      load: () => transport.call('requests.get', { id: parsed.data }),
      onValue: (detail) => setLoaded({ id, detail, error: undefined }),
      onError: (cause) => {
        const error = cause instanceof PdscopeError ? cause : new PdscopeError('unexpected', errorMessage(cause), { cause });
        // What was seen before stays on screen; it only stops being renewed.
        setLoaded((before) => ({ id, detail: before?.id === id ? before.detail : undefined, error }));
      },
      intervalMs: LEAST_INTERVAL_MS,
    });
    loader.current = current;
    current.poke();
    return () => current.close();
  }, [transport, id]);

  useEffect(() => {
    if (row !== undefined) loader.current?.poke();
  }, [row]);

  const isPolled = row === undefined && loaded?.id === id && loaded.detail?.row.state === 'running';
  useEffect(() => {
    if (!isPolled) return undefined;
    const timer = setInterval(() => loader.current?.poke(), POLL_MS);
    return () => clearInterval(timer);
  }, [isPolled]);

  return loaded?.id === id ? loaded : { detail: undefined, error: undefined };
}
