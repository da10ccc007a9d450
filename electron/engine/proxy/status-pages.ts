/** `/health`, `/healthcheck` and `/status`: what the fleet looks like from the proxy's side. */
import type { LegKind, PolicyName, Role } from '#shared/vocabulary.ts';
import type { Instance } from '../fleet/instance.ts';
import type { LegScheduler } from '../fleet/ports.ts';
import type { Connector } from './connectors/connector.ts';

export interface ModesInForce {
  readonly connector: Connector;
  readonly policy: PolicyName;
  readonly version: string;
}

interface RoleHealth {
  readonly status: 'ok' | 'unavailable';
  readonly up: number;
  readonly total: number;
  readonly unavailable: readonly { readonly name: string; readonly url: string; readonly reason: string }[];
}

const CLUSTERS = ['encode', 'prefill', 'decode'] as const;

/**
 * Healthy = a request could be served: an instance for each leg that the connector needs. Beside that, the fields of
 * vLLM's EPD example proxy (`proxy`, `*_cluster`) and of the connector's own reference.
 */
export function healthPage(scheduler: LegScheduler, { connector, version }: ModesInForce): { readonly isHealthy: boolean; readonly json: string } {
  const kinds = new Set<LegKind>([...CLUSTERS, ...connector.legs]);
  const roles: Partial<Record<LegKind, RoleHealth>> = {};
  for (const kind of kinds) {
    const health = roleHealth(scheduler, connector, kind);
    if (health.total > 0 || connector.legs.includes(kind)) roles[kind] = health;
  }
  const isHealthy = connector.legs.every((kind) => roles[kind]?.status === 'ok');
  const clusters = Object.fromEntries(CLUSTERS.map((kind) => [`${kind}_cluster`, clusterWord(roles[kind])]));
  const json = JSON.stringify({
    status: isHealthy ? 'ok' : 'unavailable', version, connector: connector.name, roles, proxy: 'healthy', ...clusters, ...connector.healthFields?.(),
  });
  return { isHealthy, json };
}

/** The shape of the NIXL tests' toy proxy. */
export function healthcheckPage(scheduler: LegScheduler): string {
  const instances = scheduler.list();
  return JSON.stringify({
    status: 'ok',
    prefill_instances: addresses(instances, 'prefill').length,
    decode_instances: addresses(instances, 'decode').length,
  });
}

/** In the EPD proxy's words: unhealthy as soon as one of the role is. */
function clusterWord(health: RoleHealth | undefined): 'empty' | 'healthy' | 'unhealthy' {
  if (health === undefined || health.total === 0) return 'empty';
  return health.unavailable.length === 0 ? 'healthy' : 'unhealthy';
}

function roleHealth(scheduler: LegScheduler, connector: Connector, kind: LegKind): RoleHealth {
  const { routable, excluded } = scheduler.candidates(kind);
  const refused = routable.flatMap((instance) => {
    const reason = connector.refuses?.(instance, kind);
    return reason === undefined ? [] : [{ instance, reason }];
  });
  const up = routable.length - refused.length;
  return {
    status: up > 0 ? 'ok' : 'unavailable',
    up,
    total: routable.length + excluded.length,
    unavailable: [...excluded, ...refused].map(({ instance, reason }) => ({ name: instance.name, url: instance.origin, reason })),
  };
}

/** The demo proxy's shape (`*_node_count`, `*_nodes` as host:port) and pdscope's own facts beside it. */
export function statusPage(scheduler: LegScheduler, { connector, policy, version }: ModesInForce): string {
  const instances = scheduler.list();
  const prefillNodes = addresses(instances, 'prefill');
  const decodeNodes = addresses(instances, 'decode');
  return JSON.stringify({
    prefill_node_count: prefillNodes.length,
    decode_node_count: decodeNodes.length,
    prefill_nodes: prefillNodes,
    decode_nodes: decodeNodes,
    version,
    connector: connector.name,
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
