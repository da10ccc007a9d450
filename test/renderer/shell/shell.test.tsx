import { act } from 'react';
import { afterEach, describe, expect, it } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import { CONNECTORS } from '#shared/vocabulary.ts';
import { listCommands, useCommandStore } from '../../../renderer/src/shell/commands.ts';
import { answerWords } from '../../../renderer/src/shell/shell-commands.tsx';
import { keyNames } from '../../../renderer/src/shell/hotkeys.tsx';
import { Shell } from '../../../renderer/src/shell/shell.tsx';
import { setUrlState } from '../../../renderer/src/url/use-url-state.ts';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';
import { sampleState } from '../fixtures/sample-state.ts';

async function show(state = sampleState()): Promise<{ readonly page: Mounted; readonly transport: FakeTransport }> {
  const transport = new FakeTransport();
  const page = await mount(
    <Shell>
      <input aria-label="typing" />
    </Shell>,
    transport,
  );
  await act(async () => transport.snapshot('state', { state }));
  await page.until(() => page.text().includes('chunks/s'));
  return { page, transport };
}

describe('Shell', () => {
  afterEach(() => {
    document.body.replaceChildren();
    setUrlState({ view: 'overview' });
  });

  it('shows what flows, what was lost and what pdscope costs', async () => {
    const state = sampleState({ telemetryDropped: 12 });
    const { page } = await show(state);
    await using _ = page;
    const status = (page.root.querySelector('footer')?.textContent ?? '').replaceAll('\u2009', ' ');
    expect(status).toContain('http://127.0.0.1:8000/v1');
    expect(status).toContain('nixl · least-in-flight');
    expect(status).toContain('148 req/s');
    expect(status).toContain('streams ▲ 4/5 ▲ 1 gap');
    expect(status).toContain('dropped 12');
    expect(status).toContain('engine 61.0 MiB · 24 % of a core');
  });

  it('marks a simulated cluster, and only that', async () => {
    const { page } = await show();
    expect(page.text()).toContain('Simulated cluster');
    await page[Symbol.asyncDispose]();
    const { simulation: _, ...real } = sampleState({ instances: [] });
    const { page: other } = await show(real);
    await using __ = other;
    expect(other.text()).not.toContain('Simulated cluster');
  });

  it.each([
    [{ info: 4, warning: 0, error: 0 }, 'Findings'],
    [{ info: 0, warning: 3, error: 0 }, 'Findings▲ 3'],
    [{ info: 1, warning: 3, error: 2 }, 'Findings✕ 5'],
  ])('counts open errors and warnings in the rail, with the shape of the worst: %o', async (open, expected) => {
    const { page } = await show(sampleState({ findings: { open, dismissed: 2, evicted: 0, revision: 1 } }));
    await using _ = page;
    expect(page.root.querySelector('a[href="#/findings"]')?.textContent).toBe(expected);
  });

  it('has a command for every connector, and for the profiler of all and of each instance', async () => {
    const { page, transport } = await show();
    await using _ = page;
    const commands = listCommands(useCommandStore.getState().sources);
    expect(commands.filter(({ id }) => id.startsWith('connector.set.')).map(({ title }) => title)).toEqual(CONNECTORS.map((name) => `Set connector: ${name}`));
    expect(CONNECTORS).toHaveLength(8);
    expect(commands.filter(({ id }) => id.startsWith('profile.start.')).map(({ title }) => title)).toEqual(
      ['all instances', 'E0', 'P0', 'P1', 'D0', 'D1', 'D2'].map((name) => `Start profiling: ${name}`),
    );
    transport.answer('profile.stop', () => ({ answers: [] }));
    await act(async () => commands.find(({ id }) => id === 'profile.stop.d0')?.run());
    expect(transport.calls.at(-1)).toEqual({ name: 'profile.stop', input: { ids: ['d0'] } });
  });

  it('sums up what instances said to the profiler', () => {
    const answer = { instance: 'p0' as InstanceId, name: 'P0', url: 'http://p0' };
    expect(answerWords([{ ...answer, outcome: 'ok' }, { ...answer, name: 'D1', outcome: 'failed', message: 'connect ECONNREFUSED' }])).toBe('1 of 2 ok; D1 failed: connect ECONNREFUSED');
    expect(answerWords([])).toBe('There is no instance to ask.');
  });

  it('changes the view by number key, except while typing', async () => {
    const { page } = await show();
    await using _ = page;
    await page.press('5');
    expect(globalThis.location.hash).toBe('#/instances');
    expect(document.title).toBe('Instances · pdscope');
    await act(async () => {
      page.find('input', 'typing').dispatchEvent(new KeyboardEvent('keydown', { key: '1', bubbles: true }));
    });
    expect(globalThis.location.hash).toBe('#/instances');
  });

  it('gives a view back as it was left', async () => {
    const { page } = await show();
    await using _ = page;
    await page.press('2');
    await act(async () => setUrlState({ filter: 'ttft>500' }));
    await page.press('1');
    expect(globalThis.location.hash).toBe('#/overview');
    await page.press('2');
    expect(globalThis.location.hash).toBe('#/requests?q=ttft%3E500');
  });

  it('says when the connection is lost and tries again when asked', async () => {
    const { page, transport } = await show();
    await using _ = page;
    await act(async () => transport.connection.set({ phase: 'waiting', attempt: 2, retryAtUnixMs: Date.now() + 5000, reason: 'reset' }));
    expect(page.root.querySelector('[role="alert"]')?.textContent).toContain('Not connected to the engine: reset.');
    await page.click('button', 'Try now');
    expect(transport.connection.get()).toEqual({ phase: 'connecting', attempt: 2 });
  });

  it('prints keys as they are on the keyboard', () => {
    expect(keyNames('mod+K')).toEqual(['Ctrl', 'K']);
    expect(keyNames('?')).toEqual(['?']);
    expect(keyNames('escape')).toEqual(['Esc']);
  });
});
