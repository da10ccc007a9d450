/**
 * No disaggregation: one instance of role `both` serves the whole request, for comparison with any P/D protocol over the
 * same fleet. Nothing is rewritten, the client's own kv_transfer_params included, and nothing is handed over, so a try
 * that failed before its first byte is simply repeated on another instance. With encode instances: E + PD.
 */
import type { Connector, ConnectorServices } from './connector.ts';

export function createAggregated({ fleet }: ConnectorServices): Connector {
  return {
    name: 'aggregated',
    legs: ['decode'],
    refuses: (instance, kind) =>
      kind === 'decode' && instance.role !== 'both' ? `role ${instance.role}: aggregated serving needs instances of role both` : undefined,
    run: (context) =>
      context.repeat('decode', (target) => context.open({ kind: 'decode', ...target, body: context.request.body, rewrites: [] })),
    status() {
      const instances = fleet.list().filter(({ role }) => role === 'both');
      return {
        connector: 'aggregated',
        summary: 'One instance of role both prefills and decodes the whole request; for comparison with P/D.',
        notices:
          instances.length > 0
            ? []
            : [{ severity: 'error', message: 'No instance of role both is registered, so every request is refused. Add one with --both, on the Instances view or with POST /instances/add.' }],
        facts: [{ title: 'Instances of role both', value: instances.length }],
        tables: [],
      };
    },
  };
}
