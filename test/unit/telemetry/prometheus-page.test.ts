import { describe, expect, it } from 'vitest';
import { parsePrometheusText } from '#engine/fleet/prometheus-text.ts';
import { createMetricsPage } from '#engine/telemetry/prometheus-page.ts';
import type { KvStreamView } from '#shared/kv.ts';
import { bench, D0, fakeInstance, P0, runStream } from './support.ts';

const STREAM = {
  id: 'p0/0', instance: 'p0', instanceName: 'P0', rank: 0, endpoint: 'tcp://h:1', topic: '', state: 'live', batches: 7, events: 9, bytes: 100,
  eventsPerSecond: 1, gaps: 1, missedBatches: 2, missedFilled: 1, missedLost: 1, confidence: 0.75, duplicateBatches: 0, epochs: 1, badMessages: 3, droppedMessages: 4, sawStart: true, resident: [],
} as unknown as KvStreamView;

describe('the Prometheus page', () => {
  it('is readable by the parser for engines and carries what happened', async () => {
    const b = bench();
    runStream(b, { prefillMs: 100, ttfbMs: 20, gaps: [10, 10, 30], completionTokens: 4 });
    runStream(b, { prefillMs: 300, ttfbMs: 20, gaps: [10] });
    b.begin().end('error', { message: 'none', code: 'no_instance' });
    b.begin();
    const odd = fakeInstance('odd "name"\n', 'decode', { breaker: 'open', inFlight: 3, state: 'down', failed: 2, consecutiveFailures: 3 });
    const page = createMetricsPage({
      telemetry: b.telemetry, fleet: { list: () => [P0, odd] }, streams: () => [STREAM], version: '1.2.3',
      rings: () => ({ requests: b.telemetry.log.counters(), kv: { kept: 5, capacity: 10, total: 11, evicted: 6, dropped: 1 } }),
    });
    const { contentType, body } = await page();
    expect(contentType).toContain('version=0.0.4');
    const parsed = parsePrometheusText(body);
    expect(parsed.badLines).toBe(0);
    const value = (name: string, labels: Record<string, string> = {}): number | undefined =>
      parsed.samples.find((sample) => sample.name === name && Object.entries(labels).every(([key, text]) => sample.labels[key] === text))?.value;

    expect(value('pdscope_requests_received_total')).toBe(4);
    expect(value('pdscope_requests_total', { state: 'ok', status: '200' })).toBe(2);
    expect(value('pdscope_requests_total', { state: 'error', status: '' })).toBe(1);
    expect(value('pdscope_requests_in_flight')).toBe(1);
    expect(value('pdscope_prefill_seconds_count', { instance: 'P0', role: 'prefill' })).toBe(2);
    expect(value('pdscope_prefill_seconds_sum', { instance: 'P0' })).toBeCloseTo(0.4, 9);
    expect(value('pdscope_prefill_seconds_bucket', { instance: 'P0', le: '0.15' })).toBe(1);
    expect(value('pdscope_prefill_seconds_bucket', { instance: 'P0', le: '0.5' })).toBe(2);
    expect(value('pdscope_prefill_seconds_bucket', { instance: 'P0', le: '+Inf' })).toBe(2);
    expect(value('pdscope_itl_seconds_count', { instance: 'D0' })).toBe(3);
    expect(value('pdscope_leg_seconds_count', { instance: 'D0', leg: 'decode' })).toBe(2);
    expect(value('pdscope_leg_seconds_count', { instance: 'D0', leg: 'prefill' })).toBeUndefined();
    expect(value('pdscope_handoff_seconds_count')).toBe(2);
    expect(value('pdscope_output_events_total', { instance: 'D0' })).toBe(9);
    expect(value('pdscope_prompt_tokens_total', { instance: 'P0' })).toBe(200);
    expect(value('pdscope_instance_breaker_open', { instance: 'odd "name"\n' })).toBe(1);
    expect(value('pdscope_instance_state', { instance: 'odd "name"\n', state: 'down' })).toBe(1);
    expect(value('pdscope_instance_in_flight', { instance: 'P0' })).toBe(0);
    expect(value('pdscope_ring_evicted_total', { ring: 'kv' })).toBe(6);
    expect(value('pdscope_ring_kept', { ring: 'requests' })).toBe(4);
    expect(value('pdscope_kv_missed_batches_total', { instance: 'P0', rank: '0' })).toBe(2);
    expect(value('pdscope_kv_filled_batches_total', { instance: 'P0', rank: '0' })).toBe(1);
    expect(value('pdscope_kv_lost_batches_total', { instance: 'P0', rank: '0' })).toBe(1);
    expect(value('pdscope_kv_confidence', { instance: 'P0', rank: '0' })).toBe(0.75);
    expect(value('pdscope_kv_dropped_messages_total')).toBe(4);
    expect(value('pdscope_build_info', { version: '1.2.3' })).toBe(1);
    expect(value('process_resident_memory_bytes')).toBeGreaterThan(1e6);
    expect(parsed.types.get('pdscope_ttft_seconds')).toBe('histogram');
  });

  it('reads live values with each call', async () => {
    const b = bench();
    const page = createMetricsPage({ telemetry: b.telemetry, fleet: { list: () => [D0] }, streams: () => [], version: '1', rings: () => ({ requests: b.telemetry.log.counters(), kv: b.telemetry.log.counters() }) });
    expect((await page()).body).toContain('pdscope_requests_received_total 0\n');
    b.begin();
    expect((await page()).body).toContain('pdscope_requests_received_total 1\n');
  });
});
