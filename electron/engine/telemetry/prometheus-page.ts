/** pdscope's own `/metrics`: what it saw of the requests, of its instances, of the KV streams, and of itself. */
import { Registry } from 'prom-client';
import type { KvStreamView } from '#shared/kv.ts';
import { LEG_KINDS } from '#shared/vocabulary.ts';
import type { EngineState, RingCounters } from '#shared/state.ts';
import type { FindingCount } from '../findings/findings.ts';
import type { Instance } from '../fleet/instance.ts';
import { addCollected, addCollectedHistogram, type CollectedSample } from './collected-metric.ts';
import { DISTRIBUTIONS, type DistributionName, type InstanceStats } from './instance-stats.ts';
import type { Telemetry } from './telemetry.ts';

export interface MetricsPageOptions {
  readonly telemetry: Telemetry;
  readonly fleet: { list(): readonly Instance[] };
  readonly streams: () => readonly KvStreamView[];
  readonly rings: () => EngineState['rings'];
  /** Default: none. */
  readonly findings?: { counts(): Iterable<FindingCount> };
  /** Shown by `pdscope_build_info`. */
  readonly version: string;
}

export interface MetricsPage {
  readonly contentType: string;
  readonly body: string;
}

const HELP: Readonly<Record<DistributionName, { readonly name: string; readonly help: string }>> = {
  prefillMs: { name: 'pdscope_prefill_seconds', help: 'Prefill legs that succeeded: sent to answer complete, by prefill instance.' },
  ttftMs: { name: 'pdscope_ttft_seconds', help: 'Client request received to first streamed event, by decode instance.' },
  itlMs: { name: 'pdscope_itl_seconds', help: 'Gaps between streamed events, by decode instance.' },
  tpotMs: { name: 'pdscope_tpot_seconds', help: '(E2EL - TTFT) / (output tokens - 1) where tokens were reported, by decode instance.' },
  e2elMs: { name: 'pdscope_e2el_seconds', help: 'Client request received to answer complete, by decode instance.' },
};

/** @returns a function that makes the page anew with each call. */
export function createMetricsPage(options: MetricsPageOptions): () => Promise<MetricsPage> {
  const registry = new Registry();
  addRequests(registry, options);
  addInstances(registry, options);
  addStreams(registry, options);
  addFindings(registry, options);
  addProcess(registry, options);
  return async () => ({ contentType: registry.contentType, body: await registry.metrics() });
}

function addRequests(registry: Registry, { telemetry, rings }: MetricsPageOptions): void {
  const counter = (name: string, help: string, read: () => Iterable<CollectedSample>): void => addCollected(registry, { name, help, type: 'counter' }, read);
  counter('pdscope_requests_received_total', 'Inference requests received.', () => single(telemetry.totals().received));
  counter('pdscope_requests_total', 'Requests ended, by outcome and by the status the client got.', function* read() {
    for (const { state, status, count } of telemetry.endedCounts()) yield { labels: { state, status: status ?? '' }, value: count };
  });
  addCollected(registry, { name: 'pdscope_requests_in_flight', help: 'Requests under way.', type: 'gauge' }, () => single(telemetry.totals().running));
  counter('pdscope_retries_total', 'Legs sent again to another instance.', () => single(telemetry.totals().retries));
  counter('pdscope_telemetry_dropped_total', 'Samples and records not taken, to protect the hot path.', () => single(telemetry.dropped));
  addCollectedHistogram(registry, { name: 'pdscope_handoff_seconds', help: 'End of prefill to decode leg sent.' }, () => [{ labels: {}, histogram: telemetry.handoffLifetime }]);
  const ring = (pick: (counters: RingCounters) => number) => (): CollectedSample[] =>
    Object.entries(rings()).map(([name, counters]) => ({ labels: { ring: name }, value: pick(counters) }));
  addCollected(registry, { name: 'pdscope_ring_kept', help: 'Rows in a bounded history.', type: 'gauge' }, ring((counters) => counters.kept));
  counter('pdscope_ring_evicted_total', 'Rows that left a bounded history to make room.', ring((counters) => counters.evicted));
  counter('pdscope_ring_dropped_total', 'Rows that never entered a bounded history because of overload.', ring((counters) => counters.dropped));
}

function addInstances(registry: Registry, { telemetry, fleet }: MetricsPageOptions): void {
  for (const name of DISTRIBUTIONS) {
    addCollectedHistogram(registry, HELP[name], function* read() {
      for (const stats of telemetry.instanceStats()) yield { labels: labelsOf(stats), histogram: stats.lifetime[name] };
    });
  }
  addCollectedHistogram(registry, { name: 'pdscope_leg_seconds', help: 'Legs that succeeded, by kind and instance.' }, function* read() {
    for (const stats of telemetry.instanceStats()) {
      for (const kind of LEG_KINDS) yield { labels: { ...labelsOf(stats), leg: kind }, histogram: stats.legMs[kind] };
    }
  });
  const perStats = (pick: (stats: InstanceStats) => number) => function* read(): Generator<CollectedSample> {
    for (const stats of telemetry.instanceStats()) yield { labels: labelsOf(stats), value: pick(stats) };
  };
  addCollected(registry, { name: 'pdscope_output_events_total', help: 'Events streamed to clients, by decode instance.', type: 'counter' }, perStats((stats) => stats.eventsTotal));
  addCollected(registry, { name: 'pdscope_prompt_tokens_total', help: 'Prompt tokens as prefill legs reported them.', type: 'counter' }, perStats((stats) => stats.promptTokensTotal));
  addCollected(registry, { name: 'pdscope_leg_errors_total', help: 'Legs that failed.', type: 'counter' }, perStats((stats) => stats.errorsTotal));

  const perInstance = (pick: (instance: Instance) => number) => (): CollectedSample[] =>
    fleet.list().map((instance) => ({ labels: labelsOf(instance), value: pick(instance) }));
  const gauge = (name: string, help: string, pick: (instance: Instance) => number): void => addCollected(registry, { name, help, type: 'gauge' }, perInstance(pick));
  gauge('pdscope_instance_in_flight', 'Legs under way.', (instance) => instance.inFlight);
  gauge('pdscope_instance_breaker_open', '1 while consecutive failures keep the instance out of scheduling.', (instance) => (instance.breaker === 'open' ? 1 : 0));
  gauge('pdscope_instance_consecutive_failures', 'Failed legs since the last one served.', (instance) => instance.consecutiveFailures);
  addCollected(registry, { name: 'pdscope_instance_state', help: 'State of the instance; the label carries it.', type: 'gauge' }, () =>
    fleet.list().map((instance) => ({ labels: { ...labelsOf(instance), state: instance.state }, value: 1 })));
  addCollected(registry, { name: 'pdscope_instance_legs_served_total', help: 'Legs that the instance answered.', type: 'counter' }, perInstance((instance) => instance.served));
  addCollected(registry, { name: 'pdscope_instance_legs_failed_total', help: 'Legs that failed by the fault of the instance.', type: 'counter' }, perInstance((instance) => instance.failed));
}

function addStreams(registry: Registry, { streams }: MetricsPageOptions): void {
  const counter = (name: string, help: string, pick: (stream: KvStreamView) => number): void => {
    addCollected(registry, { name, help, type: 'counter' }, () =>
      streams().map((stream) => ({ labels: { instance: stream.instanceName, rank: stream.rank }, value: pick(stream) })));
  };
  counter('pdscope_kv_batches_total', 'KV-event batches received.', (stream) => stream.batches);
  counter('pdscope_kv_events_total', 'KV events decoded.', (stream) => stream.events);
  counter('pdscope_kv_bytes_total', 'Bytes of KV-event batches.', (stream) => stream.bytes);
  counter('pdscope_kv_gaps_total', 'Holes in the sequence numbers.', (stream) => stream.gaps);
  counter('pdscope_kv_missed_batches_total', 'Batches inside those holes.', (stream) => stream.missedBatches);
  counter('pdscope_kv_filled_batches_total', 'Missed batches that a replay brought.', (stream) => stream.missedFilled ?? 0);
  counter('pdscope_kv_lost_batches_total', 'Missed batches that are lost for good.', (stream) => stream.missedLost ?? 0);
  counter('pdscope_kv_bad_messages_total', 'Messages that could not be decoded.', (stream) => stream.badMessages);
  counter('pdscope_kv_dropped_messages_total', "Messages dropped by pdscope's own bounded queue.", (stream) => stream.droppedMessages);
  addCollected(registry, { name: 'pdscope_kv_confidence', help: 'How far cache numbers of the stream can be trusted, 0 to 1.', type: 'gauge' }, () =>
    streams().flatMap(({ instanceName, rank, confidence }) => (confidence === undefined ? [] : [{ labels: { instance: instanceName, rank }, value: confidence }])));
}

function addFindings(registry: Registry, { findings }: MetricsPageOptions): void {
  addCollected(registry, { name: 'pdscope_findings_total', help: 'Verdicts about requests and instances, by code and severity.', type: 'counter' }, function* read() {
    for (const { code, severity, count } of findings?.counts() ?? []) yield { labels: { code, severity }, value: count };
  });
  addCollected(registry, { name: 'pdscope_legs_blocked_total', help: 'Legs held back because they would kill or hang an engine, by the code of each verdict against them.', type: 'counter' }, function* read() {
    for (const { code, severity, blocked } of findings?.counts() ?? []) if (blocked > 0) yield { labels: { code, severity }, value: blocked };
  });
}

/** The usual names, so that existing dashboards find them. */
function addProcess(registry: Registry, { version }: MetricsPageOptions): void {
  const startedAtSeconds = performance.timeOrigin / 1000;
  addCollected(registry, { name: 'pdscope_build_info', help: 'Version of pdscope.', type: 'gauge' }, () => [{ labels: { version }, value: 1 }]);
  addCollected(registry, { name: 'process_start_time_seconds', help: 'Start of the process, Unix seconds.', type: 'gauge' }, () => single(startedAtSeconds));
  addCollected(registry, { name: 'process_cpu_seconds_total', help: 'User and system CPU time.', type: 'counter' }, () => {
    const { user, system } = process.cpuUsage();
    return single((user + system) / 1e6);
  });
  addCollected(registry, { name: 'process_resident_memory_bytes', help: 'Resident memory.', type: 'gauge' }, () => single(process.memoryUsage.rss()));
  addCollected(registry, { name: 'nodejs_heap_size_used_bytes', help: 'Used JavaScript heap.', type: 'gauge' }, () => single(process.memoryUsage().heapUsed));
}

function single(value: number): CollectedSample[] {
  return [{ labels: {}, value }];
}

function labelsOf({ name, role }: { readonly name: string; readonly role: string }): { instance: string; role: string } {
  return { instance: name, role };
}
