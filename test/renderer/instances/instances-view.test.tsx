import { act } from 'react';
import { afterEach, describe, expect, it } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { EngineState } from '#shared/state.ts';
import { InstancesView } from '../../../renderer/src/features/instances/instances-view.tsx';
import { HotkeyBinder } from '../../../renderer/src/shell/hotkeys.tsx';
import { setUrlState } from '../../../renderer/src/url/use-url-state.ts';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';
import { sampleInstance, sampleState } from '../fixtures/sample-state.ts';

async function show(selection: string, state: EngineState = sampleState()): Promise<{ readonly page: Mounted; readonly transport: FakeTransport }> {
  setUrlState({ view: 'instances', selection });
  const transport = new FakeTransport();
  const page = await mount(
    <>
      <HotkeyBinder />
      <InstancesView />
    </>,
    transport,
  );
  await act(async () => transport.snapshot('state', { state }));
  await page.until(() => page.text().includes('policy'));
  return { page, transport };
}

describe('InstancesView', () => {
  afterEach(() => {
    document.body.replaceChildren();
    setUrlState({ view: 'overview' });
  });

  it('asks once before it cancels requests in flight, and offers to drain', async () => {
    const { page, transport } = await show('p0');
    await using _ = page;
    transport.answer('instance.drain', () => sampleInstance({ name: 'P0', role: 'prefill' }));
    await page.click('button', 'Remove …');
    expect(page.text()).toContain('P0 has 11 requests in flight. Removing it now cancels them; draining lets them finish.');
    expect(document.activeElement?.textContent).toBe('Cancel');
    expect(transport.calls).toEqual([]);
    await page.click('button', 'Drain instead');
    expect(transport.calls).toEqual([{ name: 'instance.drain', input: { id: 'p0', thenRemove: true } }]);
  });

  it('removes by force only what was confirmed with its count', async () => {
    const { page, transport } = await show('p0');
    await using _ = page;
    transport.answer('instance.remove', ({ id }) => ({ removed: id as InstanceId, cancelled: 11 }));
    await page.click('button', 'Remove …');
    await page.click('button', 'Remove and cancel 11 requests');
    expect(transport.calls).toEqual([{ name: 'instance.remove', input: { id: 'p0', force: true } }]);
  });

  it('stops a drain', async () => {
    const { page, transport } = await show('d2');
    await using _ = page;
    transport.answer('instance.enable', () => sampleInstance({ name: 'D2', role: 'decode' }));
    expect(page.text()).toContain('6 requests in flight; leaves when they are done');
    await page.click('button', 'Stop draining');
    expect(transport.calls).toEqual([{ name: 'instance.enable', input: { id: 'd2' } }]);
  });

  it("shows the engine's own words beside the address when it refuses", async () => {
    const { page, transport } = await show('new');
    await using _ = page;
    const words = 'Port 70000 is out of range (1-65535) in "10.0.0.1:70000".';
    transport.answer('instance.add', () => {
      throw new PdscopeError('address_invalid', words);
    });
    transport.answer('instance.probe', () => {
      throw new PdscopeError('address_invalid', words);
    });
    await page.type('Address', '10.0.0.1:70000');
    await page.click('button', 'Add');
    await page.until(() => page.text().includes(words));
    const input = page.root.querySelector<HTMLInputElement>('input[placeholder="10.0.0.1:8100"]');
    expect(input?.getAttribute('aria-invalid')).toBe('true');
    const descriptions = (input?.getAttribute('aria-describedby') ?? '').split(/ +/).map((id) => document.querySelector(`#${id}`)?.textContent);
    expect(descriptions).toContain(words);
  });

  it('offers force only where it helps, and then adds by force', async () => {
    const { page, transport } = await show('new');
    await using _ = page;
    const problem = 'It serves Llama-3-8B; the fleet serves Qwen3-8B.';
    transport.answer('instance.probe', () => ({ url: 'http://h:1', isReachable: true, isHealthy: true, models: ['Llama-3-8B'], problem, canForce: true }));
    transport.answer('instance.add', () => sampleInstance({ name: 'P2', role: 'prefill' }));
    await page.type('Address', 'h:1');
    await page.click('button', 'Probe');
    await page.until(() => page.text().includes(problem));
    await page.click('button', 'Add by force');
    expect(transport.calls.at(-1)).toEqual({ name: 'instance.add', input: { role: 'prefill', url: 'h:1', force: true } });
    await page.until(() => globalThis.location.hash === '#/instances?sel=p2');
  });

  it('walks the list with j and k, and Esc closes', async () => {
    const { page } = await show('');
    await using _ = page;
    await page.press('j');
    expect(globalThis.location.hash).toBe('#/instances?sel=e0');
    await page.press('j');
    await page.press('j');
    await page.press('k');
    expect(globalThis.location.hash).toBe('#/instances?sel=p0');
    await page.press('Escape');
    expect(globalThis.location.hash).toBe('#/instances');
  });

  it('does not take figures that grew too old for figures that never came', async () => {
    // The engine lets go of what it scraped when scrapes go on failing.
    {
      await using page = (await show('d1')).page;
      expect(page.text()).toContain('Engine metricsthe latest scrapes failed');
      expect(page.text()).toContain('GET /metrics: connection refused');
    }
    await using page = (await show('fresh', { ...sampleState(), instances: [sampleInstance({ name: 'Fresh', role: 'decode' })] })).page;
    expect(page.text()).toContain('Engine metricsnot scraped yet');
  });

  it('says so when the selected instance is gone', async () => {
    const { page } = await show('p9');
    await using _ = page;
    expect(page.text()).toContain('No longer in the fleet');
  });

  it('injects and clears a fault of a simulated instance', async () => {
    const state = sampleState();
    const { page, transport } = await show('d2', { ...state, simulation: { isRunning: true, requestsPerSecond: 20, faults: [{ instance: 'd2' as InstanceId, fault: 'hang' }] } });
    await using _ = page;
    transport.answer('sim.fault', ({ id, fault }) => ({ instance: id as InstanceId, fault }));
    expect(page.text()).toContain('▲ hang');
    await page.click('button', 'Inject');
    await page.click('button', 'Clear');
    expect(transport.calls).toEqual([
      { name: 'sim.fault', input: { id: 'd2', fault: 'slow' } },
      { name: 'sim.fault', input: { id: 'd2', fault: 'none' } },
    ]);
  });
});
