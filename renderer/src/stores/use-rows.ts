import { useEffect, useState, useSyncExternalStore } from 'react';
import { useTransport } from '../transport/transport-context.tsx';
import { RowStore, type RowChannel, type RowOf, type RowsView } from './row-store.ts';

export interface UseRowsOptions {
  /** Filter expression, evaluated by the engine over all it keeps. Default '' = everything. */
  readonly filter?: string;
  /** Rows held by the page. Read once, when the component mounts. Default 5,000. */
  readonly limit?: number;
  /** Freezes what is shown while recording goes on. Default false. */
  readonly isPaused?: boolean;
}

/** A live, bounded window on the requests or KV events. Lives as long as the component. */
export function useRows<C extends RowChannel>(channel: C, options: UseRowsOptions = {}): RowsView<RowOf<C>> {
  const { filter = '', limit = 5000, isPaused = false } = options;
  const transport = useTransport();
  const [store] = useState(() => new RowStore(transport, channel, limit));

  useEffect(() => {
    store.open(filter);
    return () => store.close();
  }, [store, filter]);

  useEffect(() => {
    store.setPaused(isPaused);
  }, [store, isPaused]);

  return useSyncExternalStore(store.subscribe, store.get);
}
