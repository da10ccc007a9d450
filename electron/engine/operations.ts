/**
 * The handlers behind shared/operations.ts. Inputs are validated here, once, whoever calls: a button, the palette, the
 * HTTP API or the command line.
 */
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import {
  OPERATION_INPUTS, type OperationName, type OperationOutputs, type ParsedOperationInput, type ProbeResult,
} from '#shared/operations.ts';
import type { EngineState } from '#shared/state.ts';
import type { Demo } from './demo.ts';
import { issuesText } from './engine-options.ts';
import { viewOf, type EngineParts } from './engine-parts.ts';
import { instancesNamed, postToInstances } from './fleet/fan-out.ts';
import type { Instance } from './fleet/instance.ts';
import { checkRankEndpoints } from './kv-events/endpoints.ts';

type Handlers = {
  readonly [N in OperationName]: (input: ParsedOperationInput<N>) => OperationOutputs[N] | Promise<OperationOutputs[N]>;
};

export type RunOperation = <N extends OperationName>(name: N, input: unknown) => Promise<OperationOutputs[N]>;

/** Binds the operations to an engine's parts. The answer rejects with PdscopeError `bad_input` that names the field. */
export function createOperations(parts: EngineParts, state: () => EngineState): RunOperation {
  const handlers = createHandlers(parts, state);
  return async (name, input) => {
    if (!Object.hasOwn(OPERATION_INPUTS, name)) throw new PdscopeError('unknown_operation', `There is no operation "${name.slice(0, 64)}".`);
    const parsed = OPERATION_INPUTS[name].safeParse(input ?? {});
    if (!parsed.success) throw new PdscopeError('bad_input', `${name}: ${issuesText(parsed.error)}`);
    // The schema of `name` made it; the compiler does not connect the two over a generic.
    const handler = handlers[name] as (input: unknown) => OperationOutputs[typeof name] | Promise<OperationOutputs[typeof name]>;
    return handler(parsed.data);
  };
}

function createHandlers(parts: EngineParts, state: () => EngineState): Handlers {
  const { fleet, kvEvents, telemetry, cache, proxy } = parts;
  const view = (instance: Instance) => viewOf(parts, instance);
  const need = (id: InstanceId): Instance => {
    const instance = fleet.get(id);
    if (instance === undefined) throw new PdscopeError('instance_not_found', `There is no instance "${id}" in the fleet.`);
    return instance;
  };
  const profile = async (action: 'start' | 'stop', ids: readonly InstanceId[] | undefined) => {
    const { openaiApiKey } = parts.settings;
    const authorization = openaiApiKey === undefined ? undefined : `Bearer ${openaiApiKey}`;
    return { answers: await postToInstances(instancesNamed(fleet.list(), ids), `/${action}_profile`, { authorization }) };
  };
  return {
    'state.get': () => state(),
    'instance.probe': async (spec) => {
      checkKvEvents(spec);
      return withExpectedModel(await fleet.probe(spec), parts.settings.model);
    },
    'instance.add': async ({ force, ...spec }) => view(await addInstance(parts, spec, force)),
    'instance.drain': ({ id, thenRemove }) => view(fleet.drain(id, { thenRemove })),
    'instance.enable': ({ id }) => view(fleet.enable(id)),
    'instance.disable': ({ id }) => view(fleet.disable(id)),
    'instance.remove': ({ id, force }) => fleet.remove(id, { force }),
    'policy.set': ({ policy }) => {
      proxy.setPolicy(policy);
      return { policy };
    },
    'connector.set': async ({ connector }) => {
      const setConnector = (): Promise<void> => proxy.setConnector(connector);
      await (parts.demo === undefined ? setConnector() : parts.demo.useConnector(connector, { fleet, setConnector }));
      return { connector };
    },
    'connector.status': () => proxy.connectorStatus(),
    'protocol.set': (change) => proxy.setProtocol(change),
    'profile.start': ({ ids }) => profile('start', ids),
    'profile.stop': ({ ids }) => profile('stop', ids),
    'findings.list': (filter) => parts.findings.list(filter),
    'findings.dismiss': ({ id }) => {
      parts.findings.dismiss(id);
      return { id };
    },
    'findings.restore': ({ id }) => {
      parts.findings.restore(id);
      return { id };
    },
    'findings.clear': () => ({ cleared: parts.findings.clear() }),
    'capture.set': ({ isOn }) => {
      telemetry.setCapture(isOn);
      return { isOn };
    },
    'explain.set': ({ isOn }) => {
      cache.setExplaining(isOn);
      return { isOn };
    },
    'requests.get': ({ id }) => {
      const detail = telemetry.detail(id);
      if (detail === undefined) throw new PdscopeError('request_not_found', `Request ${id} is not kept: it was evicted, cleared, or never recorded.`);
      return detail;
    },
    'requests.clear': () => ({ cleared: telemetry.log.clear() }),
    'kv.blocks': (input) => cache.index.blocks(input),
    'kv.clear': () => ({ cleared: kvEvents.log.clear() }),
    'kv.rates': () => kvEvents.rates(),
    'kv.notes': ({ stream }) => kvEvents.notes(stream),
    'kv.frames': ({ n }) => kvEvents.frames(n),
    'cache.hits': (input) => parts.cacheHits.query(input, fleet.list()),
    ...cache.answers,
    'cache.difference': (input) => cache.difference(input, telemetry),
    'requests.why': ({ id }) => cache.why(id, telemetry),
    'cache.misses': ({ windowS }) => cache.misses(windowS, telemetry),
    'series.query': (input) => telemetry.query(input, fleet.list()),
    'sim.fault': async ({ id, fault, amount }) => {
      await needDemo(parts.demo).setFault(need(id), fault, amount);
      return { instance: id, fault };
    },
    'sim.traffic': ({ requestsPerSecond }) => {
      needDemo(parts.demo).setRate(requestsPerSecond);
      return { requestsPerSecond };
    },
  };
}

/** Probes and joins; used by the operation and by the proxy's admin route. */
export async function addInstance(
  { fleet, settings }: Pick<EngineParts, 'fleet' | 'settings'>,
  spec: InstanceSpec,
  force = false,
): Promise<Instance> {
  checkKvEvents(spec);
  if (settings.model !== undefined && !force) {
    const { problem, canForce } = withExpectedModel(await fleet.probe(spec), settings.model);
    if (problem !== undefined && canForce) throw new PdscopeError('model_mismatch', `${problem} Use force to add it anyway.`);
  }
  return fleet.add(spec, { force });
}

/** What a probe found, held against the model that was asked for at start. */
function withExpectedModel(found: ProbeResult, model: string | undefined): ProbeResult {
  if (model === undefined || found.problem !== undefined || found.models.length === 0 || found.models.includes(model)) return found;
  const problem = `${found.url} serves "${found.models.slice(0, 3).join('", "')}", but --model asked for "${model}".`;
  return { ...found, problem, canForce: true };
}

/** Every rank's endpoint, before anything joins. Throws PdscopeError `kv_endpoint_invalid`. */
export function checkKvEvents({ kvEvents }: InstanceSpec): void {
  if (kvEvents !== undefined) checkRankEndpoints(kvEvents);
}

function needDemo(demo: Demo | undefined): Demo {
  if (demo === undefined) throw new PdscopeError('not_simulated', 'Only the demo (pdscope serve --demo) has simulated instances and traffic to steer.');
  return demo;
}
