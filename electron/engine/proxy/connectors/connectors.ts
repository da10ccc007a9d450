/** The connectors of one proxy, by name. */
import type { ConnectorName } from '#shared/vocabulary.ts';
import type { Connector } from './connector.ts';
import { nixlConnector } from './nixl.ts';
import { plainConnector } from './plain.ts';

export function createConnectors(): Readonly<Record<ConnectorName, Connector>> {
  return { plain: plainConnector, nixl: nixlConnector };
}
