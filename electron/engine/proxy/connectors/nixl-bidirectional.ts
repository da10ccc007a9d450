import { ProxyError } from '../proxy-error.ts';
import type { Connector, ConnectorServices } from './connector.ts';

export function createNixlBidirectional(_services: ConnectorServices): Connector {
  return {
    name: 'nixl-bidirectional',
    legs: ['prefill', 'decode'],
    run: () => Promise.reject(new ProxyError(501, 'not_built', 'not built yet')),
    status: () => ({ connector: 'nixl-bidirectional', summary: 'not built yet', notices: [], facts: [], tables: [] }),
  };
}
