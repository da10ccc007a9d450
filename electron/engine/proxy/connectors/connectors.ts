/** The connectors of one proxy, by name. */
import type { ConnectorName } from '#shared/vocabulary.ts';
import { createAggregated } from './aggregated.ts';
import type { Connector, ConnectorServices } from './connector.ts';
import { createMooncake } from './mooncake.ts';
import { createMoriio } from './moriio.ts';
import { createNixlBidirectional } from './nixl-bidirectional.ts';
import { createNixlPush } from './nixl-push.ts';
import { nixlConnector } from './nixl.ts';
import { plainConnector } from './plain.ts';
import { createRender } from './render.ts';

export function createConnectors(services: ConnectorServices): Readonly<Record<ConnectorName, Connector>> {
  return {
    plain: plainConnector,
    nixl: nixlConnector,
    'nixl-bidirectional': createNixlBidirectional(services),
    'nixl-push': createNixlPush(services),
    mooncake: createMooncake(services),
    moriio: createMoriio(services),
    render: createRender(services),
    aggregated: createAggregated(services),
  };
}
