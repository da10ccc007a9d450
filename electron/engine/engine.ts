/**
 * Composition root. Builds proxy, fleet, KV-event subscriber, telemetry and (in demo mode) the simulated cluster,
 * and offers them to hosts as commands, channels and snapshots. Imports neither electron nor the DOM.
 */
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { KvRow } from '#shared/kv.ts';
import type { OperationName, OperationOutputs } from '#shared/operations.ts';
import type { RequestRow } from '#shared/request.ts';
import type { EngineState } from '#shared/state.ts';
import { CacheHits } from './cache-hits/cache-hits.ts';
import { IndexLookup } from './cache-hits/index-lookup.ts';
import { Cache, createCacheIndex } from './cache/cache.ts';
import { ReuseAnnouncers } from './cache/reuse-announcers.ts';
import { hasDemoShape, withDemoDefaults } from './demo-defaults.ts';
import type { Demo, DemoInput } from './demo.ts';
import { parseEngineOptions, type EngineOptions, type EngineSettings } from './engine-options.ts';
import type { EngineParts } from './engine-parts.ts';
import { engineState, ringCounters } from './engine-state.ts';
import { Findings } from './findings/findings.ts';
import { Fleet } from './fleet/fleet.ts';
import { hostInUrl } from './fleet/host-kind.ts';
import type { Instance } from './fleet/instance.ts';
import { KvEvents } from './kv-events/kv-events.ts';
import { silentLogger, type Logger } from './log.ts';
import { addInstance, checkKvEvents, createOperations } from './operations.ts';
import { ProcessGauges } from './process-gauges.ts';
import { createLinter } from './proxy/lint/create-linter.ts';
import { createProxy } from './proxy/proxy.ts';
import type { RowLog } from './row-log.ts';
import { createMetricsPage } from './telemetry/prometheus-page.ts';
import { Telemetry } from './telemetry/telemetry.ts';

const SAMPLE_INTERVAL_MS = 1000;

/** Where the proxy listens. */
export interface ProxyAddress {
  readonly host: string;
  readonly port: number;
  /** Base URL for OpenAI clients, e.g. `http://127.0.0.1:8000/v1`. */
  readonly url: string;
}

/** What hosts and sessions need of an engine. */
export interface Engine {
  readonly requests: RowLog<RequestRow>;
  readonly kv: RowLog<KvRow>;
  readonly proxyAddress: ProxyAddress;
  /** Validates `input` against the operation's schema and runs it. Rejects with PdscopeError for expected failures. */
  call<N extends OperationName>(name: N, input: unknown): Promise<OperationOutputs[N]>;
  state(): EngineState;
  /** Ends traffic, listeners, sockets and timers; within 1.5 s whatever clients and instances do. */
  close(): Promise<void>;
}

/**
 * Starts an engine; resolves when its proxy listens. Instances given are joined without waiting for them.
 * Throws PdscopeError: `bad_options` naming the field, `port_in_use`, `listen_failed`, and for an instance given
 * `address_*`, `instance_duplicate`, `instance_name_taken`, `kv_endpoint_invalid`.
 */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const settings = await withDemoDefaults(parseEngineOptions(options), options);
  const logger = options.logger ?? silentLogger;
  const { connector, protocol } = settings;
  const demo =
    settings.demo === undefined
      ? undefined
      : await startDemo({ settings: settings.demo, hasShape: hasDemoShape(options), connector, protocol, logger });
  const parts = buildParts(options, settings, logger, demo);
  const { fleet, proxy, kvEvents, telemetry, cacheHits, gauges } = parts;
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= closeParts(parts, sampler));
  followFleet(parts, logger);
  const sampler = setInterval(() => {
    gauges.sample();
    telemetry.sample(fleet.list());
    cacheHits.sample(fleet.list());
  }, SAMPLE_INTERVAL_MS);
  try {
    for (const spec of settings.instances) checkKvEvents(spec);
    for (const spec of [...(demo?.specs() ?? []), ...settings.instances]) fleet.addConfigured(spec);
    const { host, port } = await proxy.listen(settings.proxy.port, settings.proxy.host);
    const origin = `http://${hostInUrl(host)}:${port}`;
    const proxyAddress = { host, port, url: `${origin}/v1` };
    await demo?.joined(fleet);
    if (demo !== undefined) whenServing(fleet, () => demo.startTraffic(origin));
    const state = (): EngineState => engineState(parts, closing === undefined ? proxyAddress.url : undefined);
    logger.info({ proxy: proxyAddress.url, connector: proxy.connector, policy: proxy.policy }, 'engine started');
    return { requests: telemetry.log, kv: kvEvents.log, proxyAddress, call: createOperations(parts, state), state, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The simulator is loaded only by those who want it. */
async function startDemo(input: DemoInput): Promise<Demo> {
  const { Demo } = await import('./demo.ts');
  return Demo.start(input);
}

function buildParts({ version, host }: EngineOptions, settings: EngineSettings, logger: Logger, demo: Demo | undefined): EngineParts {
  const { openaiApiKey, adminApiKey, retention, timeouts } = settings;
  const fleet = new Fleet({ logger, timeouts, ...(openaiApiKey !== undefined && { apiKey: openaiApiKey }) });
  const announcers = new ReuseAnnouncers();
  const { index, stores, observer } = createCacheIndex(retention.blocks, announcers);
  const kvEvents = new KvEvents({ capacity: retention.kvEvents, books: index, observer, logger, firstRank: (id) => fleet.get(id)?.gauges?.firstRank, isServing: () => fleet.isServing });
  const findings = new Findings();
  const cacheHits = new CacheHits({ stats: () => telemetry.instanceStats(), findings });
  const cache = new Cache({ index, stores, announcers, fleet, kvEvents, findings, logger, openaiApiKey, explainMisses: settings.explainMisses, ...(settings.explainCalls !== undefined && { explainCalls: settings.explainCalls }), hits: cacheHits });
  const telemetry = new Telemetry({ requestCapacity: retention.requests, findings, watcher: cache.watcher, instanceName: (id) => fleet.get(id)?.name });
  telemetry.setCapture(settings.capture);
  const proxy = createProxy({
    scheduler: fleet,
    fleet,
    protocol: settings.protocol,
    findings,
    linter: createLinter({ fleet }),
    prefixes: new IndexLookup({ index, fleet, kvEvents }),
    tracer: telemetry,
    logger,
    connector: settings.connector,
    policy: settings.policy,
    timeouts,
    maxBodyBytes: settings.maxBodyBytes,
    maxRetries: settings.maxRetries,
    ...(openaiApiKey !== undefined && { openaiApiKey }),
    admin: {
      ...(adminApiKey !== undefined && { apiKey: adminApiKey }),
      add: (spec) => addInstance({ fleet, settings }, spec),
      remove: async (address, role) => {
        const instance = fleet.findByAddress(address, role);
        if (instance === undefined) throw new PdscopeError('instance_not_found', `${address} is not a ${role} instance of the fleet.`);
        return fleet.remove(instance.id);
      },
    },
    metricsPage: createMetricsPage({
      fleet,
      telemetry,
      streams: () => kvEvents.streams(),
      rings: () => ringCounters({ telemetry, kvEvents }),
      findings,
      version,
    }),
    version,
  });
  const gauges = new ProcessGauges();
  return { settings, version, host, startedAtUnixMs: Date.now(), fleet, kvEvents, telemetry, findings, cache, cacheHits, proxy, gauges, demo };
}

/** KV streams come and go with their instances, one per data-parallel rank. */
function followFleet({ fleet, kvEvents, telemetry, settings }: EngineParts, logger: Logger): void {
  const follow = (instance: Instance): void => {
    if (instance.kvEvents === undefined) return;
    try {
      if (kvEvents.streamsOf(instance.id).length === 0) kvEvents.attach(instance, instance.kvEvents);
      kvEvents.extend(instance.id, instance.dpSize);
    } catch (error) {
      // Checked before joining; what still fails here (no more sockets) must not undo the joining.
      logger.error({ instance: instance.id, problem: errorMessage(error) }, 'KV events of an instance cannot be subscribed to');
    }
  };
  fleet.onAdded(follow);
  fleet.onChanged(follow);
  fleet.onRemoved((instance) => {
    kvEvents.detach(instance.id);
    telemetry.forget(instance.id);
  });
  const { model } = settings;
  if (model === undefined) return;
  fleet.onChanged((instance) => {
    if (instance.models.length === 0 || instance.models.includes(model)) return;
    logger.warn({ instance: instance.id, models: instance.models, expected: model }, 'instance serves another model than --model');
  });
}

/** Calls back once requests can be served, so that the demo does not begin with refusals. */
function whenServing(fleet: Fleet, start: () => void): void {
  const canServe = (): boolean => fleet.candidates('prefill').routable.length > 0 && fleet.candidates('decode').routable.length > 0;
  if (canServe()) {
    start();
    return;
  }
  const stop = fleet.onChanged(() => {
    if (!canServe()) return;
    stop();
    start();
  });
}

/** Clients first, then the listener that serves them, then what the listener uses. */
async function closeParts({ demo, proxy, kvEvents, cache, fleet, telemetry, gauges }: EngineParts, sampler: NodeJS.Timeout): Promise<void> {
  clearInterval(sampler);
  await demo?.stopTraffic();
  await Promise.all([proxy.close(), kvEvents.close(), cache.close()]);
  await fleet.close();
  await demo?.close();
  telemetry.close();
  gauges.close();
}
