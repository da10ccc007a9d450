import type { ClientMessage, HostMessage } from '#shared/wire.ts';

/** What a duplex tells the session. After `onClose` it says nothing more. */
export interface DuplexHandlers {
  readonly onMessage: (message: HostMessage) => void;
  /** `isFinal`: trying again cannot help, e.g. the host refused this client. */
  readonly onClose: (reason: string, isFinal?: boolean) => void;
}

/** One live connection that carries whole messages in order. */
export interface Duplex {
  send(message: ClientMessage): void;
  close(): void;
}

/** Starts one connection attempt. Failure is reported through `onClose`, never thrown. */
export type Connect = (handlers: DuplexHandlers) => Duplex;
