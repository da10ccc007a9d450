import { createContext, useContext, useEffect, useState, type ReactElement, type ReactNode } from 'react';
import { useStore } from 'zustand';
import { useShallow } from 'zustand/react/shallow';
import type { EngineState } from '#shared/state.ts';
import { useTransport } from '../transport/transport-context.tsx';
import { createEngineStore, feedEngineStore, type EngineStore } from './engine-store.ts';

const EngineContext = createContext<EngineStore | undefined>(undefined);

/** Holds the one state subscription of the page. */
export function EngineProvider({ children }: { readonly children: ReactNode }): ReactElement {
  const transport = useTransport();
  const [store] = useState(createEngineStore);
  useEffect(() => feedEngineStore(store, transport), [store, transport]);
  return <EngineContext value={store}>{children}</EngineContext>;
}

function useEngineStore(): EngineStore {
  const store = useContext(EngineContext);
  if (store === undefined) throw new Error('useEngineState needs an EngineProvider above it');
  return store;
}

/** The newest state of the engine; undefined before the first one arrived. Renders about four times a second. */
export function useEngineState(): EngineState | undefined {
  return useStore(useEngineStore(), (snapshot) => snapshot.engine);
}

/** A part of the state; renders only when that part changes (compared one level deep). */
export function useEngineSelector<T>(select: (engine: EngineState | undefined) => T): T {
  return useStore(
    useEngineStore(),
    useShallow((snapshot) => select(snapshot.engine)),
  );
}

/** True before the first state and while the connection is down: what is shown may be out of date. */
export function useIsStale(): boolean {
  return useStore(useEngineStore(), (snapshot) => snapshot.isStale);
}
