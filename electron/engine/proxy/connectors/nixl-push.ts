import { ProxyError } from '../proxy-error.ts';
import type { Connector, ConnectorServices } from './connector.ts';

export function createNixlPush(_services: ConnectorServices): Connector {
  return {
    name: 'nixl-push',
    legs: ['prefill', 'decode'],
    run: () => Promise.reject(new ProxyError(501, 'not_built', 'not built yet')),
    status: () => ({ connector: 'nixl-push', summary: 'not built yet', notices: [], facts: [], tables: [] }),
  };
}
