/**
 * The only code that sees both worlds. The page gets no API and no ipcRenderer: a constant that says where it runs and,
 * on request, a MessagePort that speaks the session protocol. The relay acknowledges each frame as it hands it to the
 * page, so that the engine knows how far the window has come (shared/desktop-port.ts).
 */
import { contextBridge, ipcRenderer } from 'electron';
import {
  DESKTOP_GLOBAL,
  IPC_CONNECT,
  IPC_PORT,
  IPC_VIEW,
  type ClientFrame,
  type HostFrame,
  type PortDelivery,
} from '#shared/desktop-port.ts';
import type { ClientMessage } from '#shared/wire.ts';

contextBridge.exposeInMainWorld(DESKTOP_GLOBAL, { host: 'desktop', platform: process.platform });

window.addEventListener('message', (event: MessageEvent<unknown>) => {
  // Only the page itself: a frame or an opener has another source.
  if (event.source !== window) return;
  const data = event.data as { readonly type?: unknown } | null;
  if (data?.type === 'pdscope-connect') ipcRenderer.send(IPC_CONNECT);
});

ipcRenderer.on(IPC_PORT, (event) => {
  const [enginePort] = event.ports;
  if (enginePort === undefined) return;
  const { port1: pagePort, port2: given } = new MessageChannel();

  enginePort.addEventListener('message', ({ data }: MessageEvent<HostFrame>) => {
    pagePort.postMessage(data.message);
    enginePort.postMessage({ ack: data.n } satisfies ClientFrame);
  });
  pagePort.addEventListener('message', ({ data }: MessageEvent<ClientMessage>) => {
    enginePort.postMessage({ message: data } satisfies ClientFrame);
  });
  enginePort.addEventListener('close', () => pagePort.close());
  pagePort.addEventListener('close', () => enginePort.close());
  enginePort.start();
  pagePort.start();

  // The recipient is this very window, whatever Chromium calls the origin of a custom scheme.
  window.postMessage({ type: 'pdscope-port' } satisfies PortDelivery, '*', [given]);
});

ipcRenderer.on(IPC_VIEW, (_event, view: string) => {
  // The page keeps its view in the hash and listens to changes of it.
  window.location.hash = `#/${encodeURIComponent(view)}`;
});
