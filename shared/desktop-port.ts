/**
 * How a window of the desktop app gets its session: page -> preload -> main and back with a MessagePort.
 *
 * The page posts `ConnectRequest` to its own window and gets `PortDelivery` back with a port in `event.ports[0]`. That
 * port carries `ClientMessage`s out and `HostMessage`s in, nothing else. Between preload and main every frame is
 * numbered and acknowledged, because a MessagePort cannot say how much it holds: frames not yet acknowledged are what
 * the window has not taken, and stand in for a WebSocket's `bufferedAmount`.
 */
import type { ClientMessage, HostMessage } from './wire.ts';

/** Page to preload, by `window.postMessage`, whenever the page wants a (new) session. */
export interface ConnectRequest {
  readonly type: 'pdscope-connect';
}

/** Preload to page, by `window.postMessage`, with the port. */
export interface PortDelivery {
  readonly type: 'pdscope-port';
}

/** Main to preload, over the port. `n` grows by one from 1. */
export interface HostFrame {
  readonly n: number;
  readonly message: HostMessage;
}

/** Preload to main, over the port. `ack` is the highest `n` handed to the page. */
export type ClientFrame = { readonly ack: number } | { readonly message: ClientMessage };

/** Name under which the preload tells the page that it is in the desktop app (`window.pdscope`). */
export const DESKTOP_GLOBAL = 'pdscope';

/** Names of the IPC messages, which pages never see. */
export const IPC_CONNECT = 'pdscope:connect';
export const IPC_PORT = 'pdscope:port';
/** Main to preload: show the view with this id, e.g. `requests`. */
export const IPC_VIEW = 'pdscope:view';
