import { act } from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import type { EngineState } from '#shared/state.ts';
import { OverviewView } from '../../../renderer/src/features/overview/overview-view.tsx';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';
import { sampleFinding, samplePage } from '../fixtures/sample-findings.ts';
import { sampleSeries } from '../fixtures/sample-series.ts';
import { NOW, sampleInstance, sampleState } from '../fixtures/sample-state.ts';

async function show(state: EngineState): Promise<Mounted> {
  const transport = new FakeTransport();
  transport.answer('series.query', (input) => sampleSeries(state, input, NOW));
  const page = await mount(<OverviewView />, transport);
  await act(async () => transport.snapshot('state', { state }));
  await page.until(() => !page.text().includes('first state'));
  return page;
}

/** The figure and its context of one tile. */
function tile(page: Mounted, label: string): string {
  const term = [...page.root.querySelectorAll('dt')].find((one) => one.textContent === label);
  return (term?.nextElementSibling?.textContent ?? 'no such tile').replaceAll('\u2009', ' ');
}

/** Observers of sizes see this one; happy-dom lays nothing out. */
function measured(inlineSize: number, blockSize: number): void {
  vi.stubGlobal('ResizeObserver', class {
    constructor(readonly onSize: (entries: readonly unknown[]) => void) {}
    observe(): void {
      this.onSize([{ contentRect: { x: 0, y: 0, top: 0, left: 0, bottom: blockSize, right: inlineSize, width: inlineSize, height: blockSize }, borderBoxSize: [{ inlineSize, blockSize }] }]);
    }
    unobserve(): void {}
    disconnect(): void {}
  });
}

describe('OverviewView', () => {
  beforeEach(() => {
    globalThis.location.hash = '#/overview';
  });
  afterEach(() => {
    document.body.replaceChildren();
    vi.unstubAllGlobals();
  });

  it('shows the fleet totals with both percentiles', async () => {
    await using page = await show(sampleState());
    expect(tile(page, 'requests/s')).toBe('14812.4k in all');
    expect(tile(page, 'TTFT p50 / p95')).toBe('247/ 445 ms');
    expect(tile(page, 'prompt cached')).toBe('46.2%');
    expect(tile(page, 'errors (5 min)')).toBe('76 retried');
    expect(tile(page, 'KV event confidence')).toBe('—✕ 1 lost');
  });

  it('says how far event numbers can be trusted: as far as the worst stream', async () => {
    const state = sampleState();
    const streams = state.streams.map((stream, index) => ({ ...stream, state: 'live' as const, gaps: 0, confidence: index === 1 ? 0.61 : 1, reasons: [] }));
    await using page = await show({ ...state, streams });
    expect(tile(page, 'KV event confidence')).toBe(`61% · ${streams.length}/${streams.length} live`);
  });

  it('draws a dash for what nobody observed, never a 0', async () => {
    const { cachedTokens5m: _, ...unreported } = sampleState({ latency: {}, streams: [] });
    await using page = await show(unreported);
    for (const label of ['TTFT p50 / p95', 'ITL p50 / p99', 'prompt cached']) expect(tile(page, label)).toBe('—');
    expect(tile(page, 'KV events/s')).toBe('—no streams');
    const e0 = page.find('tr', [...page.root.querySelectorAll('tr')].map((row) => (row.textContent ?? '').replaceAll(/\s+/g, ' ').trim()).find((text) => text.startsWith('E0')) ?? '');
    expect([...e0.querySelectorAll('td')].slice(2, 5).map((cell) => cell.textContent)).toEqual(['—', '—', '—']);
  });

  it('says in words why an instance takes no requests', async () => {
    await using page = await show(sampleState());
    const text = page.text();
    expect(text).toContain('breaker open');
    expect(text).toContain('draining, 6 left');
    expect(text).toMatch(/✕ down 12.s/);
    expect(text).toContain('▲ 23 missed');
  });

  it('outlines a box in the hue of its role also when its state is bad, and says the state by ground, shape and words', async () => {
    const state = sampleState();
    measured(1000, 300);
    const instances = state.instances.map((instance) => (instance.role === 'decode' ? { ...instance, state: 'up' as const, breaker: 'open' as const } : instance));
    await using page = await show({ ...state, instances });
    const topology = page.find('section', 'Topology');
    await page.until(() => topology.querySelector('svg') !== null);
    const boxes = [...topology.querySelectorAll('[role="link"]')].filter((box) => box.querySelector('rect')?.getAttribute('stroke') === 'var(--pd-role-decode)');
    expect(boxes.map((box) => [...box.querySelectorAll('text')].map((text) => text.textContent))).toEqual(['D0', 'D1', 'D2'].map((name) => [name, '▲ breaker open']));
    const broken = boxes.map((box) => box.querySelector('rect'));
    for (const box of broken) {
      expect(box?.getAttribute('data-tone')).toBe('warning');
    }
  });

  it('shows the worst open findings with their newest evidence, and the way to the rest', async () => {
    const page = samplePage();
    const others = [1, 2, 3].map((n) => sampleFinding({ id: `more${n}`, code: `more_${n}`, severity: 'info', title: `More ${n}` }));
    const elsewhere = sampleFinding({ id: 'null_params/nixl/p1', instance: 'p1' as InstanceId, instanceName: 'P1', count: 4 });
    const many = { ...page, findings: [...page.findings, ...others, elsewhere] };
    const transport = new FakeTransport();
    const state = sampleState();
    transport.answer('series.query', (input) => sampleSeries(state, input, NOW));
    transport.answer('findings.list', () => many);
    await using mounted = await mount(<OverviewView />, transport);
    await act(async () => transport.snapshot('state', { state }));
    await mounted.until(() => mounted.text().includes('Open findings · 6'));
    const rows = [...mounted.find('table', 'Open findings').querySelectorAll('tr')];
    expect(rows).toHaveLength(5);
    expect(rows[1]?.textContent).toContain('✕ errorPrefill handed over nothing P0 P1 · nixl · 35×kv_transfer_params is null; decode computes 4,982 tokens again');
    expect(mounted.find('a', '1 more').getAttribute('href')).toBe('#/findings');
    await act(async () => rows[0]?.querySelector('a')?.click());
    expect(globalThis.location.hash).toBe('#/findings?sel=hang');
  });

  it('tells what to do when there is no instance', async () => {
    await using page = await show(sampleState({ instances: [], streams: [], edges: [] }));
    expect(page.text()).toContain('No instances yet');
    expect(page.text()).toContain('--prefill 10.0.0.1:8100 --decode 10.0.0.2:8200');
    await page.click('div[class*="empty"] button', 'Add instance');
    expect(globalThis.location.hash).toBe('#/instances?sel=new');
  });

  it('gives base URL and cURL to copy while there is no traffic', async () => {
    const state = sampleState();
    await using page = await show({ ...state, totals: { ...state.totals, received: 0 } });
    expect(page.text()).toContain('No traffic yet');
    expect(page.root.querySelector('[aria-label="cURL example"]')?.textContent).toBe(
      `curl -N http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"Qwen3-8B","stream":true,"messages":[{"role":"user","content":"Hello"}]}'`,
    );
  });

  it('says that the proxy is not listening instead of offering an address', async () => {
    const { proxyUrl: _, ...state } = sampleState();
    await using page = await show({ ...state, totals: { ...state.totals, received: 0 } });
    expect(page.text()).toContain('the proxy is not listening');
  });

  it('says why it is disconnected when it never heard from the engine', async () => {
    const transport = new FakeTransport();
    transport.connection.set({ phase: 'waiting', attempt: 2, retryAtUnixMs: NOW, reason: 'connection closed (1006)' });
    await using page = await mount(<OverviewView />, transport);
    expect(page.text()).toContain('Disconnected');
    expect(page.text()).toContain('connection closed (1006)');
  });

  it('shows a fleet of a hundred', async () => {
    const instances = Array.from({ length: 100 }, (_, index) => sampleInstance({ name: `D${index}`, role: 'decode' }));
    await using page = await show(sampleState({ instances, edges: [] }));
    expect(page.root.querySelectorAll('tbody tr')).toHaveLength(100);
  });
});
