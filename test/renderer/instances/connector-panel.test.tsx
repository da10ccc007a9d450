import { act } from 'react';
import { afterEach, describe, expect, it } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { ProtocolSettings } from '#shared/protocol.ts';
import type { EngineState } from '#shared/state.ts';
import { CONNECTORS } from '#shared/vocabulary.ts';
import { InstancesView } from '../../../renderer/src/features/instances/instances-view.tsx';
import { CONNECTOR_GUIDE } from '../../../renderer/src/fleet/connector-guide.ts';
import { setUrlState } from '../../../renderer/src/url/use-url-state.ts';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';
import { sampleStatus } from '../fixtures/sample-connector-status.ts';
import { sampleState } from '../fixtures/sample-state.ts';

async function show(part: Partial<EngineState> = {}, selection = ''): Promise<{ readonly page: Mounted; readonly transport: FakeTransport }> {
  setUrlState({ view: 'instances', selection, open: '' });
  const transport = new FakeTransport();
  const state = sampleState(part);
  transport.answer('connector.status', () => sampleStatus(state.connector));
  const page = await mount(<InstancesView />, transport);
  await act(async () => transport.snapshot('state', { state }));
  await page.until(() => page.text().includes('policy'));
  return { page, transport };
}

const calls = (transport: FakeTransport): readonly unknown[] => transport.calls.filter(({ name }) => name !== 'connector.status');
const checkbox = (page: Mounted, label: string): HTMLInputElement => {
  const found = [...page.root.querySelectorAll('label')].find((one) => one.textContent === label);
  const input = page.root.querySelector<HTMLInputElement>(`#${found?.htmlFor ?? 'none'}`);
  if (input === null) throw new Error(`no check box is labelled "${label}"`);
  return input;
};

describe('ConnectorPanel', () => {
  afterEach(() => {
    document.body.replaceChildren();
    setUrlState({ view: 'overview' });
  });

  it('shows what the connector keeps: notices, facts, typed cells, honest totals', async () => {
    const { page } = await show({ connector: 'nixl-bidirectional' });
    await using _ = page;
    await page.until(() => page.text().includes('c-7f3a09c1'));
    const table = page.find('section', 'Conversations');
    expect(table.querySelector('[data-testid="status-totals"]')?.textContent).toBe('212 of at most 10,000 · evicted 0 · expired 31');
    expect([...table.querySelectorAll('th')].map((head) => head.textContent)).toEqual(['conversation', 'decode', 'blocks', 'prompt tokens', 'stored', 'expires', 'streamed']);
    const cells = [...table.querySelectorAll('tbody tr')].map((row) => [...row.querySelectorAll('td')].map((cell) => (cell.textContent ?? '').replaceAll('\u2009', ' ')));
    expect(cells[0]).toEqual(['c-7f3a09c1', 'D0', '312', '4,982', '4.0 s ago', 'in 7 m 26 s', 'yes']);
    expect(cells[1]?.slice(3)).toEqual(['—', '1 m 1 s ago', 'in 6 m 29 s', 'no']);
    expect(table.querySelector('td a')?.getAttribute('href')).toBe('#/instances?sel=d0');
    expect(table.textContent).toContain('The latest 2 are shown; 210 more are kept.');
    expect(page.find('[role="region"]', 'Rows of Conversations').tabIndex).toBe(0);
    expect(page.root.querySelector('[data-testid="connector-status"]')?.textContent).toContain('▲ warningStreaming clients get no reuse');
    expect(page.find('section', 'Reuse refused').textContent).toContain('Empty.');
  });

  it('does not show the state of the connector before as that of the new one', async () => {
    const { page, transport } = await show({ connector: 'mooncake' });
    await using _ = page;
    transport.answer('connector.status', () => sampleStatus('nixl'));
    await act(async () => transport.snapshot('state', { state: sampleState({ connector: 'moriio' }) }));
    await page.until(() => page.text().includes('Asking moriio what it keeps'));
    expect(page.text()).not.toContain('c-7f3a09c1');
  });

  it('switches, and gives the reason when it is refused', async () => {
    const { page, transport } = await show();
    await using _ = page;
    transport.answer('connector.set', () => {
      throw new PdscopeError('address_in_use', 'Port 36367 is taken by another process.');
    });
    await act(async () => setUrlState({ open: 'nixl,moriio' }));
    await page.click('button', 'Use moriio');
    expect(calls(transport)).toEqual([{ name: 'connector.set', input: { connector: 'moriio' } }]);
    await page.until(() => page.text().includes('moriio was refused, nixl stays: Port 36367 is taken by another process.'));
    expect(page.find('button', 'Use nixl').hasAttribute('disabled')).toBe(true);
  });

  it('sets one protocol setting at a time, and says why when the engine would not', async () => {
    const { page, transport } = await show();
    await using _ = page;
    const settings: ProtocolSettings = { blockFatal: false, reemitStreams: false, encodeStage: 'auto' };
    transport.answer('protocol.set', () => settings);
    expect(checkbox(page, 'Hold back legs that would kill or hang an engine').checked).toBe(true);
    await act(async () => checkbox(page, 'Hold back legs that would kill or hang an engine').click());
    expect(calls(transport)).toEqual([{ name: 'protocol.set', input: { blockFatal: false } }]);
    // Stays where it was put until the engine's state comes, also when that says otherwise.
    expect(checkbox(page, 'Hold back legs that would kill or hang an engine').checked).toBe(false);
    await act(async () => transport.snapshot('state', { state: sampleState({ protocol: settings }) }));
    expect(checkbox(page, 'Hold back legs that would kill or hang an engine').checked).toBe(false);
    await act(async () => transport.snapshot('state', { state: sampleState() }));
    await page.until(() => checkbox(page, 'Hold back legs that would kill or hang an engine').checked);
    transport.answer('protocol.set', () => {
      throw new PdscopeError('bad_input', 'protocol.set: not now');
    });
    await act(async () => checkbox(page, 'Run decode without stream and re-emit it as one').click());
    await page.until(() => page.text().includes('protocol.set: not now'));
    expect(checkbox(page, 'Run decode without stream and re-emit it as one').checked).toBe(false);
  });

  it('reports what every instance said to the profiler call', async () => {
    const { page, transport } = await show();
    await using _ = page;
    transport.answer('profile.start', () => ({
      answers: [
        { instance: 'p0' as InstanceId, name: 'P0', url: 'http://p0', outcome: 'ok', status: 200 },
        { instance: 'd0' as InstanceId, name: 'D0', url: 'http://d0', outcome: 'unsupported', status: 404 },
        { instance: 'd1' as InstanceId, name: 'D1', url: 'http://d1', outcome: 'failed', message: 'connect ECONNREFUSED' },
      ],
    }));
    await page.click('button', 'Start on all');
    expect(calls(transport)).toEqual([{ name: 'profile.start', input: {} }]);
    const report = page.find('ul', 'Answers to start profile');
    expect([...report.querySelectorAll('li')].map((item) => item.textContent)).toEqual([
      'P0● profiling', 'D0○ unsupported started without a profiler (--profiler-config)', 'D1✕ failed connect ECONNREFUSED',
    ]);
  });

  it('profiles one instance from its detail, and shows its ranks and transfer facts', async () => {
    const { page, transport } = await show({}, 'd0');
    await using _ = page;
    transport.answer('profile.stop', () => ({ answers: [{ instance: 'd0' as InstanceId, name: 'D0', url: 'http://d0', outcome: 'ok' }] }));
    await page.click('button', 'Stop profile');
    expect(calls(transport)).toEqual([{ name: 'profile.stop', input: { ids: ['d0'] } }]);
    expect(page.text()).toContain('2 (from /server_info)');
    const ranks = [...page.find('table', 'Ranks of D0').querySelectorAll('tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent));
    expect(ranks).toEqual([
      ['D0/0', '20', '240 / 432', '11.0 / 19.8', '—'],
      ['D0/1', '22', '256 / 461', '12.0 / 21.6', '—'],
    ]);
    for (const fact of ['NixlConnector', '6f1c2b9e', '16 tokens']) expect(page.text()).toContain(fact);
    const facts = Object.fromEntries([...page.root.querySelectorAll('dt')].map((term) => [term.textContent, term.nextElementSibling?.textContent]));
    // What is not known to have a unit gets none.
    expect(facts).toMatchObject({ kv_lease_duration: '30 s', decoder_kv_blocks_ttl: '480 s', kv_recompute_threshold: '64 tokens', num_threads: '7' });
  });

  it('says how an instance joined that registered itself, and that an engine is silent about its transfer', async () => {
    const state = sampleState();
    const instances = state.instances.map((instance) => (instance.id === 'p0' ? { ...instance, registeredBy: 'moriio' as const } : instance));
    const { page } = await show({ instances }, 'p0');
    await using _ = page;
    expect(page.text()).toContain('it registered with moriio');
    expect(page.text()).toContain('the engine does not say');
  });
});

describe('CONNECTOR_GUIDE', () => {
  it.each(CONNECTORS)('%s has flags whose configuration is JSON with a connector and a role', (name) => {
    const guide = CONNECTOR_GUIDE[name];
    expect(guide.flags.length > 0).toBe(name !== 'aggregated');
    for (const { flags } of guide.flags) {
      const json = /--kv-transfer-config '(\{.*\})'$/u.exec(flags)?.[1] ?? 'no configuration';
      expect(JSON.parse(json)).toMatchObject({ kv_connector: expect.stringMatching(/Connector/), kv_role: expect.stringMatching(/^kv_(producer|consumer|both)$/) });
    }
  });
});
