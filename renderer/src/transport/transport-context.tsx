import { createContext, useContext, useSyncExternalStore, type ReactElement, type ReactNode } from 'react';
import type { ConnectionState, Transport } from './transport.ts';

const TransportContext = createContext<Transport | undefined>(undefined);

export function TransportProvider({ transport, children }: { readonly transport: Transport; readonly children: ReactNode }): ReactElement {
  return <TransportContext value={transport}>{children}</TransportContext>;
}

/** The session's transport. A component outside the provider is a programming error. */
export function useTransport(): Transport {
  const transport = useContext(TransportContext);
  if (transport === undefined) throw new Error('useTransport needs a TransportProvider above it');
  return transport;
}

/** Where the session stands; renders again on each change. */
export function useConnection(): ConnectionState {
  const { connection } = useTransport();
  return useSyncExternalStore(connection.subscribe, connection.get);
}

/** There is no connection, and at least one attempt to make it has failed: what is asked now reaches nobody. */
export function useIsCutOff(): boolean {
  const connection = useConnection();
  return connection.phase === 'waiting' || connection.phase === 'refused' || (connection.phase === 'connecting' && connection.attempt > 1);
}
