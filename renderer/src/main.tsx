/** Starts the page: picks the transport of the host it runs on, and mounts the app. */
import './no-eval.ts';
import './theme/mantine.css';
import './theme/tokens.css';
import './theme/kit.css';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import { hasDesktopHost, portConnect } from './transport/port-transport.ts';
import { SessionClient } from './transport/session-client.ts';
import { sessionUrl, webSocketConnect } from './transport/web-socket-transport.ts';

const root = document.querySelector('#root');
if (root === null) throw new Error('index.html has no #root');

const transport = new SessionClient(hasDesktopHost() ? portConnect() : webSocketConnect(sessionUrl(globalThis.location)));
createRoot(root).render(
  <StrictMode>
    <App transport={transport} />
  </StrictMode>,
);
