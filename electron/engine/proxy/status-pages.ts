/** `/health` and `/status`: what the fleet looks like from the proxy's side. */
import type { ConnectorName, PolicyName, Role } from '#shared/vocabulary.ts';
import type { Instance } from '../fleet/instance.ts';
import type { LegScheduler } from '../fleet/ports.ts';

export interface ModeNames {
  readonly connector: ConnectorName;
  readonly policy: PolicyName;
  readonly version: string;
}

/** Healthy = a request could be served: at least one routable instance for each leg the connectors use. */
export function healthPage(scheduler: LegScheduler, { connector, version }: ModeNames): { readonly isHealthy: boolean; readonly json: string } {
  const prefill = roleHealth(scheduler, 'prefill');
  const decode = roleHealth(scheduler, 'decode');
  const isHealthy = prefill.up > 0 && decode.up > 0;
  const json = JSON.stringify({ status: isHealthy ? 'ok' : 'unavailable', version, connector, roles: { prefill, decode } });
  return { isHealthy, json };
}

function roleHealth(scheduler: LegScheduler, kind: 'prefill' | 'decode'): {
  readonly status: 'ok' | 'unavailable';
  readonly up: number;
  readonly total: number;
  readonly unavailable: readonly { readonly name: string; readonly url: string; readonly reason: string }[];
} {
  const { routable, excluded } = scheduler.candidates(kind);
  return {
    status: routable.length > 0 ? 'ok' : 'unavailable',
    up: routable.length,
    total: routable.length + excluded.length,
    unavailable: excluded.map(({ instance, reason }) => ({ name: instance.name, url: instance.origin, reason })),
  };
}

/** The demo proxy's shape (`*_node_count`, `*_nodes` as host:port) and pdscope's own facts beside it. */
export function statusPage(scheduler: LegScheduler, { connector, policy, version }: ModeNames): string {
  const instances = scheduler.list();
  const prefillNodes = addresses(instances, 'prefill');
  const decodeNodes = addresses(instances, 'decode');
  return JSON.stringify({
    prefill_node_count: prefillNodes.length,
    decode_node_count: decodeNodes.length,
    prefill_nodes: prefillNodes,
    decode_nodes: decodeNodes,
    version,
    connector,
    policy,
    instances: instances.map((instance) => ({
      id: instance.id,
      name: instance.name,
      role: instance.role,
      url: instance.origin,
      state: instance.state,
      ...(instance.stateReason !== undefined && { state_reason: instance.stateReason }),
      breaker: instance.breaker,
      in_flight: instance.inFlight,
      served: instance.served,
      failed: instance.failed,
      models: instance.models,
    })),
  });
}

function addresses(instances: readonly Instance[], role: Role): string[] {
  return instances.filter((instance) => instance.role === role || instance.role === 'both').map(({ origin }) => hostPort(origin));
}

/** `http://h:1` → `h:1`; a default port is written out, as the demo proxy's users gave it. */
function hostPort(origin: string): string {
  const { host, port, protocol } = new URL(origin);
  if (port !== '') return host;
  return `${host}:${protocol === 'https:' ? 443 : 80}`;
}
