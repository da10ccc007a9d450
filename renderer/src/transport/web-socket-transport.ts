import type { HostMessage } from '#shared/wire.ts';
import type { Connect } from './duplex.ts';

/** Close code of the control server for a session without a valid cookie (RFC 6455: 4000-4999 are the application's). */
const UNAUTHORIZED = 4401;

/** The session's address on the host that served this page. */
export function sessionUrl(location: Pick<Location, 'protocol' | 'host'>): string {
  return `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/api/session`;
}

/** Connects to a headless host: JSON text frames. */
export function webSocketConnect(url: string): Connect {
  return ({ onMessage, onClose }) => {
    const socket = new WebSocket(url);
    let isDone = false;
    let hasOpened = false;
    const finish = (reason: string, isFinal = false): void => {
      if (isDone) return;
      isDone = true;
      onClose(reason, isFinal);
    };
    socket.addEventListener('open', () => {
      hasOpened = true;
    });
    socket.addEventListener('message', (event: MessageEvent<unknown>) => {
      if (isDone) return;
      if (typeof event.data !== 'string') {
        socket.close();
        finish('the engine sent a frame that is not text');
        return;
      }
      let message: HostMessage;
      try {
        message = JSON.parse(event.data) as HostMessage;
      } catch {
        socket.close();
        finish('the engine sent a frame that is not JSON');
        return;
      }
      onMessage(message);
    });
    socket.addEventListener('close', (event) => {
      if (event.code === UNAUTHORIZED) finish(event.reason === '' ? 'not signed in' : event.reason, true);
      else if (hasOpened) finish(event.reason === '' ? `connection closed (${event.code})` : event.reason);
      // A browser does not tell a page why an upgrade failed, so the words name both usual causes.
      else finish('the engine does not answer, or this page is not signed in');
    });
    return {
      send: (message) => {
        if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
      },
      close: () => {
        isDone = true;
        socket.close();
      },
    };
  };
}
