/**
 * Connects to the desktop host. The page asks the preload for a port (`pdscope-connect`); the preload answers with one
 * MessagePort that leads to the engine in the main process. Messages are structured clones, so no JSON is involved.
 */
import { DESKTOP_GLOBAL, type ConnectRequest, type PortDelivery } from '#shared/desktop-port.ts';
import type { HostMessage } from '#shared/wire.ts';
import type { Connect } from './duplex.ts';

const PORT_TIMEOUT_MS = 5000;

/** True when a preload of pdscope is present. */
export function hasDesktopHost(scope: object = globalThis): boolean {
  return DESKTOP_GLOBAL in scope;
}

export function portConnect(): Connect {
  return ({ onMessage, onClose }) => {
    let port: MessagePort | undefined;
    let isDone = false;
    const finish = (reason: string): void => {
      if (isDone) return;
      isDone = true;
      globalThis.removeEventListener('message', receivePort);
      clearTimeout(timer);
      onClose(reason);
    };
    const receivePort = (event: MessageEvent<unknown>): void => {
      // Only this page's own preload may hand over a port: same window, known shape.
      if (event.source !== globalThis.window || !isPortMessage(event.data)) return;
      const received = event.ports[0];
      if (received === undefined || port !== undefined) return;
      globalThis.removeEventListener('message', receivePort);
      clearTimeout(timer);
      port = received;
      port.addEventListener('message', (message: MessageEvent<HostMessage>) => onMessage(message.data));
      port.addEventListener('close', () => finish('the engine closed the port'));
      port.start();
    };
    const timer = setTimeout(() => finish('the desktop host did not hand over a port'), PORT_TIMEOUT_MS);
    globalThis.addEventListener('message', receivePort);
    globalThis.postMessage({ type: 'pdscope-connect' } satisfies ConnectRequest, '*');
    return {
      send: (message) => port?.postMessage(message),
      close: () => {
        isDone = true;
        globalThis.removeEventListener('message', receivePort);
        clearTimeout(timer);
        port?.close();
      },
    };
  };
}

function isPortMessage(data: unknown): data is PortDelivery {
  return typeof data === 'object' && data !== null && 'type' in data && data.type === 'pdscope-port';
}
