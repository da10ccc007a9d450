import { ProxyError } from '../proxy-error.ts';
import type { Connector, ConnectorServices } from './connector.ts';

export function createRender(_services: ConnectorServices): Connector {
  return {
    name: 'render',
    legs: ['prefill', 'decode'],
    run: () => Promise.reject(new ProxyError(501, 'not_built', 'not built yet')),
    status: () => ({ connector: 'render', summary: 'not built yet', notices: [], facts: [], tables: [] }),
  };
}
