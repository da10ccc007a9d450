/** The engine's whole state, conflated: the page holds the newest one only. One store for the life of the page. */
import { createStore, type StoreApi } from 'zustand/vanilla';
import type { EngineState } from '#shared/state.ts';
import type { Transport } from '../transport/transport.ts';
import { FlushScheduler } from './flush-scheduler.ts';

export interface EngineSnapshot {
  /** Absent until the first snapshot. Kept, but stale, while disconnected. */
  readonly engine: EngineState | undefined;
  readonly isStale: boolean;
  /** Engine clock minus this page's clock, ms, so that "3 h ago" is right on a machine whose clock is off. */
  readonly clockOffsetMs: number;
}

export type EngineStore = StoreApi<EngineSnapshot>;

export function createEngineStore(): EngineStore {
  return createStore<EngineSnapshot>(() => ({ engine: undefined, isStale: true, clockOffsetMs: 0 }));
}

/** Feeds `store` from the state channel. Answers the function that stops it. */
export function feedEngineStore(store: EngineStore, transport: Transport): () => void {
  let newest: EngineSnapshot = store.getState();
  const scheduler = new FlushScheduler(() => store.setState(newest));
  const receive = ({ state }: { readonly state: EngineState }): void => {
    newest = { engine: state, isStale: false, clockOffsetMs: state.nowUnixMs - Date.now() };
    scheduler.request();
  };
  const subscription = transport.subscribe(
    'state',
    {},
    {
      onSnapshot: receive,
      onDelta: receive,
      onRejected: () => {
        newest = { ...newest, isStale: true };
        scheduler.request();
      },
      onStale: () => {
        newest = { ...newest, isStale: true };
        scheduler.request();
      },
    },
  );
  return () => {
    subscription.close();
    scheduler.cancel();
  };
}
