import { act } from 'react';
import { afterEach, describe, expect, it } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import type { EngineState } from '#shared/state.ts';
import { FindingsView } from '../../../renderer/src/features/findings/findings-view.tsx';
import { HotkeyBinder } from '../../../renderer/src/shell/hotkeys.tsx';
import { setUrlState } from '../../../renderer/src/url/use-url-state.ts';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';
import { sampleFinding, samplePage } from '../fixtures/sample-findings.ts';
import { NOW, sampleState } from '../fixtures/sample-state.ts';

interface Shown {
  readonly page: Mounted;
  readonly transport: FakeTransport;
}

async function show(url: Parameters<typeof setUrlState>[0] = {}, page = samplePage(), state: EngineState = sampleState()): Promise<Shown> {
  setUrlState({ view: 'findings', selection: '', filter: '', tab: '', open: '', ...url });
  const transport = new FakeTransport();
  transport.answer('findings.list', ({ all }) => ({ ...page, findings: page.findings.filter((finding) => all === true || !finding.isDismissed) }));
  const mounted = await mount(
    <>
      <HotkeyBinder />
      <FindingsView />
    </>,
    transport,
  );
  await act(async () => transport.snapshot('state', { state }));
  await mounted.until(() => mounted.text().includes('evicted'));
  return { page: mounted, transport };
}

/** Titles of the rows, top down. */
function titles(page: Mounted): readonly string[] {
  return [...page.root.querySelectorAll('table[aria-label="Findings"] tbody th > span:first-child')].map((cell) => cell.textContent ?? '');
}

/** The engine says that its findings are others now. */
async function change(transport: FakeTransport, revision: number): Promise<void> {
  const state = sampleState();
  await act(async () => transport.snapshot('state', { state: { ...state, findings: { ...state.findings, revision } } }));
}

const listings = (transport: FakeTransport): number => transport.calls.filter(({ name }) => name === 'findings.list').length;

describe('FindingsView', () => {
  afterEach(() => {
    document.body.replaceChildren();
    setUrlState({ view: 'overview' });
  });

  it('lists the worst first, of equals the newest first, with shape and word', async () => {
    const { page } = await show();
    await using _ = page;
    expect(titles(page)).toEqual(['Fields that make decode wait for ever', 'Prefill handed over nothing', 'Loopback side-channel host corrected']);
    const cells = [...page.root.querySelectorAll('table[aria-label="Findings"] tbody tr')].map((row) => [...row.querySelectorAll('td')].map((cell) => (cell.textContent ?? '').trim().replaceAll('\u2009', ' ')));
    expect(cells[0]).toEqual(['✕ error', 'D1', 'nixl', '3', '3', '20 s ago']);
    expect(cells[2]?.[0]).toBe('● info');
    expect(page.find('[data-testid="finding-counters"]', 'shown 3 · open 3 (2 error, 0 warning, 1 info) · dismissed or over 0 · evicted 0')).toBeTruthy();
  });

  it('puts the next step first, then effect and evidence with a link to the request', async () => {
    const { page } = await show({ selection: 'hang' });
    await using _ = page;
    const detail = page.find('section', 'Finding').textContent ?? '';
    expect(detail.indexOf('Start P0 with')).toBeLessThan(detail.indexOf('What it is'));
    expect(detail).toContain('D1 would hold the request without an end');
    expect(detail).toContain('All 3 legs were held back; clients got 502 with the reason');
    expect(detail).toContain('prefill->proxy');
    expect(page.find('a', '#7').getAttribute('href')).toBe('#/requests?sel=r7');
    await page.click('a', '#7');
    expect(globalThis.location.hash).toBe('#/requests?sel=r7');
  });

  it('says that the evidence is only the latest of many cases', async () => {
    const { page } = await show({ selection: 'null_params/nixl/p0' });
    await using _ = page;
    expect(page.text()).toContain('the latest 2 of 31 cases, newest first');
  });

  it('dismisses by id, keeps what was dismissed in the detail, and brings it back', async () => {
    const { page, transport } = await show({ selection: 'hang' });
    await using _ = page;
    transport.answer('findings.dismiss', ({ id }) => ({ id }));
    transport.answer('findings.restore', ({ id }) => ({ id }));
    await page.press('d');
    // Not the last call: the list is asked for whenever it may have changed.
    expect(transport.calls).toContainEqual({ name: 'findings.dismiss', input: { id: 'hang' } });
    const dismissed = samplePage();
    transport.answer('findings.list', () => ({ ...dismissed, findings: dismissed.findings.map((finding) => ({ ...finding, isDismissed: finding.id === 'hang' })) }));
    await change(transport, 6);
    await page.until(() => !titles(page).includes('Fields that make decode wait for ever'));
    expect(page.find('section', 'Finding').textContent).toContain('Fields that make decode wait for ever');
    await page.click('button', 'Bring back');
    expect(transport.calls).toContainEqual({ name: 'findings.restore', input: { id: 'hang' } });
  });

  it('asks again when the engine says that something changed', async () => {
    const { page, transport } = await show({ selection: 'hang' });
    await using _ = page;
    const before = listings(transport);
    await change(transport, 6);
    await page.until(() => listings(transport) > before);
    expect(listings(transport)).toBe(before + 1);
  });

  it('shows dismissed ones when asked, and says that they are', async () => {
    const { page, transport } = await show({}, samplePage([sampleFinding({ id: 'old', code: 'old', title: 'Long ago', isDismissed: true, dismissal: { atUnixMs: NOW, untilUnixMs: NOW + 60_000, seenAgain: 3 } }), sampleFinding({ id: 'over', code: 'over', title: 'Ended', isDismissed: true, overAtUnixMs: NOW })]));
    await using _ = page;
    expect(titles(page)).not.toContain('Long ago dismissed');
    await act(async () => setUrlState({ tab: 'dismissed' }));
    expect(titles(page)).toEqual(['Long ago dismissed, seen again 3 times', 'Ended over']);
    await act(async () => setUrlState({ selection: 'old' }));
    expect(page.find('section', 'Finding').textContent).toContain('yes, seen again 3 times; it opens again when it gets worse, when it is seen after 20');
    await act(async () => setUrlState({ tab: 'all', selection: '' }));
    expect(titles(page)).toHaveLength(5);
    expect(transport.calls.at(-1)).toEqual({ name: 'findings.list', input: { all: true } });
  });

  it('has one line for a diagnosis on several instances, which opens to its places', async () => {
    const others = ['p1', 'p2'].map((id) => sampleFinding({ id: `null_params/nixl/${id}`, instance: id as InstanceId, instanceName: id.toUpperCase(), count: 4, nextStep: `Start ${id.toUpperCase()} with a KV role.` }));
    const { page, transport } = await show({}, { ...samplePage(), findings: [...samplePage().findings, ...others] });
    await using _ = page;
    transport.answer('findings.dismiss', ({ id }) => ({ id }));
    expect(titles(page)).toEqual(['Fields that make decode wait for ever', '▸ 3Prefill handed over nothing', 'Loopback side-channel host corrected']);
    expect(page.text()).toContain('shown 5 in 3 lines');
    expect(page.text()).toContain('3 places: P0 P1 P2 · nixl');
    await page.click('button', 'Prefill handed over nothing');
    expect(globalThis.location.hash).toBe(`#/findings?${new URLSearchParams({ sel: 'code:null_params' })}`);
    const detail = (): string => page.find('section', 'Finding').textContent ?? '';
    expect(detail()).toContain('seen 39 times');
    expect(detail()).toContain('Start P2 with a KV role.');
    expect([...page.find('table', 'Places').querySelectorAll('tbody button')].map((button) => button.textContent)).toEqual(['P0 · nixl', 'P1 · nixl', 'P2 · nixl']);

    await page.click('button', '3 places of Prefill handed over nothing');
    expect(titles(page)).toEqual(['Fields that make decode wait for ever', '▾ 3Prefill handed over nothing', 'P0 · nixl', 'P1 · nixl', 'P2 · nixl', 'Loopback side-channel host corrected']);
    await page.press('j');
    await page.press('j');
    expect(detail()).toContain('seen 4 times');
    await page.press('k');
    await page.press('k');
    await page.click('button', 'Dismiss all 3');
    expect(transport.calls.filter(({ name }) => name === 'findings.dismiss').map(({ input }) => input)).toEqual([{ id: 'null_params/nixl/p0' }, { id: 'null_params/nixl/p1' }, { id: 'null_params/nixl/p2' }]);
  });

  it('filters by severity, instance and text', async () => {
    const { page } = await show({ filter: 'severity:error instance:P0' });
    await using _ = page;
    expect(titles(page)).toEqual(['Prefill handed over nothing']);
    await act(async () => setUrlState({ filter: 'wait' }));
    expect(titles(page)).toEqual(['Fields that make decode wait for ever']);
    await act(async () => setUrlState({ filter: 'severity:warning' }));
    expect(page.text()).toContain('The filter hides everything');
    expect(page.text()).toContain('3 findings listed, none matches: severity:warning');
  });

  it('walks the list with j and k, and Esc gives the selection up', async () => {
    const { page } = await show();
    await using _ = page;
    await page.press('j');
    await page.press('j');
    expect(globalThis.location.hash).toBe(`#/findings?${new URLSearchParams({ sel: 'null_params/nixl/p0' })}`);
    await page.press('k');
    expect(globalThis.location.hash).toBe('#/findings?sel=hang');
    await page.press('Escape');
    expect(globalThis.location.hash).toBe('#/findings');
  });

  it('says what is watched while there is nothing', async () => {
    const none = { findings: [], summary: { open: { info: 0, warning: 0, error: 0 }, dismissed: 2, evicted: 0, revision: 1 } };
    const { page } = await show({}, none);
    await using _ = page;
    expect(page.text()).toContain('12,431 requests came since pdscope started, and each was checked as it passed; now against the contract of nixl');
    expect(page.text()).toContain('held back with 502');
    await page.click('button', 'Show 2 findings dismissed or over');
    expect(globalThis.location.hash).toBe('#/findings?tab=dismissed');
  });

  it('keeps what it has when the engine stops answering, and says why', async () => {
    const { page, transport } = await show();
    await using _ = page;
    transport.answer('findings.list', () => {
      throw new Error('engine is busy');
    });
    await change(transport, 9);
    await page.until(() => page.text().includes('Shown as last seen: engine is busy'));
    expect(titles(page)).toHaveLength(3);
  });
});
