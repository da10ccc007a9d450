import { act } from 'react';
import { afterEach, describe, expect, it } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { RequestRow } from '#shared/request.ts';
import { usePinCopies } from '../../../renderer/src/features/requests/pins.ts';
import { RequestsView } from '../../../renderer/src/features/requests/requests-view.tsx';
import { HotkeyBinder } from '../../../renderer/src/shell/hotkeys.tsx';
import { setUrlState } from '../../../renderer/src/url/use-url-state.ts';
import { sampleReport } from '../cache/sample-cache.ts';
import { hashOf } from '../kv-events/sample-events.ts';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';
import { sampleVerdict } from '../fixtures/sample-findings.ts';
import { sampleState } from '../fixtures/sample-state.ts';
import { withLayout } from '../table/layout.ts';
import { failedRow, sampleDetail, sampleEncodeLegs, sampleRow } from './sample-requests.ts';

const rowsTo = (last: number): readonly RequestRow[] => Array.from({ length: last }, (_, index) => (index + 1 === 4 ? failedRow(4) : sampleRow(index + 1)));
const counters = (kept: number, matching = kept) => ({ total: kept + 7, kept, evicted: 7, dropped: 0, matching });

async function show(rows: readonly RequestRow[], state = sampleState()): Promise<{ readonly page: Mounted; readonly transport: FakeTransport }> {
  const transport = new FakeTransport();
  transport.answer('requests.get', ({ id }) => {
    const row = rows.find((one) => one.id === id);
    if (row === undefined) throw new PdscopeError('not_found', 'Request is no longer kept.');
    return sampleDetail(row);
  });
  const page = await mount(
    <>
      <HotkeyBinder />
      <RequestsView />
    </>,
    transport,
  );
  await act(async () => {
    transport.snapshot('state', { state });
    transport.snapshot('requests', { rows, counters: counters(rows.length), omitted: 0 });
  });
  await page.until(() => page.text().includes('shown'));
  return { page, transport };
}

const ids = (page: Mounted): readonly (string | undefined)[] => [...page.root.querySelectorAll<HTMLElement>('[data-row-id]')].map((row) => row.dataset['rowId']);

describe('RequestsView', () => {
  withLayout(1100, 420);
  afterEach(() => {
    document.body.replaceChildren();
    usePinCopies.setState({ byId: new Map() });
    setUrlState({ view: 'requests', filter: '', highlight: '', selection: '', tab: '', open: '', hidden: '', pick: '' });
  });

  it('lists newest first, with the counters of the same snapshot and the failure in place of the bar', async () => {
    const { page } = await show(rowsTo(6));
    await using _ = page;
    expect(ids(page)).toEqual(['r6', 'r5', 'r4', 'r3', 'r2', 'r1']);
    expect(page.text()).toContain('shown 6 · matching 6 of 6 · total 13 · evicted 7 · dropped 0');
    const failed = page.root.querySelector('[data-row-id="r4"]')?.textContent ?? '';
    expect(failed).toContain('✕ 502');
    expect(failed).toContain('decode D1: connect failed');
    // TTFT, ITL, cached share: nothing observed, nothing invented.
    expect(failed.match(/—/g)?.length).toBeGreaterThanOrEqual(3);
  });

  it('selects by keyboard, loads the detail, and writes out the sum with the unattributed rest', async () => {
    const { page } = await show(rowsTo(11));
    await using _ = page;
    await page.press('j');
    await page.press('j');
    await page.until(() => page.root.querySelector('[data-testid="ttft-sum"]') !== null);
    expect(globalThis.location.hash).toContain('sel=r10');
    expect(page.root.querySelector('[data-testid="ttft-sum"]')?.textContent).toMatch(/^TTFT 1,112 = proxy 4\.0 \+ .*remote-KV wait ≤ 718 .*\+ unattributed 10\.0 ms$/);
    await page.press('Escape');
    expect(globalThis.location.hash).not.toContain('sel=');
  });

  it('explains why a request missed, only when asked', async () => {
    const { page, transport } = await show(rowsTo(6));
    await using _ = page;
    transport.answer('requests.why', ({ id }) => sampleReport(id));
    await page.press('j');
    await page.until(() => page.text().includes('Why a miss'));
    expect(transport.calls.some(({ name }) => name === 'requests.why')).toBe(false);
    await page.click('[role="tab"]', 'Why a miss');
    await page.until(() => page.text().includes('96 of 2,487 prompt tokens (3.9 %) were in the cache of P0'));
    expect(globalThis.location.hash).toContain('tab=why');
    expect([...page.root.querySelectorAll('ol[aria-label="Ranges of the prompt"] > li')].map((line) => line.firstElementChild?.textContent?.trim())).toEqual([
      'hit', 'diverges', 'elsewhere', 'evicted', 'never stored', 'other key', 'reset', 'unknown', 'partial block',
    ]);
    expect([...page.root.querySelectorAll('mark')].map((mark) => mark.textContent)).toEqual(['2', '1']);
    expect(page.text()).toContain('▲ Another stream would have had 560 tokens more.');
    expect(page.find('a', 'block #77').getAttribute('href')).toBe('#/cache?sel=77&tab=tree');
    // The block that is held where the prompt diverges, and the first of those that another instance held.
    const links = [...page.root.querySelectorAll('a[title^="Its content"]')];
    expect(links.map((link) => [link.parentElement?.textContent, link.getAttribute('href')])).toEqual([
      [`block held there ${hashOf(6).slice(0, 8)}… on P0`, `#/cache?sel=p0%2F0%3A${hashOf(6)}&tab=tree`],
      [`the first of them ${hashOf(7).slice(0, 8)}… on P1`, `#/cache?sel=p1%2F0%3A${hashOf(7)}&tab=tree`],
    ]);
    expect(page.root.querySelector('svg[aria-label^="The prompt by verdict: evicted 800 tokens"]')).not.toBeNull();
  });

  it('folds the streams of a large fleet that matched least, but never the chosen one', async () => {
    const { page, transport } = await show(rowsTo(6));
    await using _ = page;
    const matches = Array.from({ length: 32 }, (_one, index) => ({ stream: `d${index}/0` as StreamId, instanceName: `D${index}`, role: 'decode' as const, tokens: 640 - index * 16, wasChosen: index === 30 }));
    transport.answer('requests.why', ({ id }) => sampleReport(id, { matches }));
    await page.press('j');
    await act(async () => setUrlState({ tab: 'why' }));
    await page.until(() => page.text().includes('Matched at that time'));
    const names = (): readonly string[] => [...page.root.querySelectorAll('table')].filter(({ caption }) => caption?.textContent?.startsWith('Matched') === true).flatMap((table) => [...table.querySelectorAll('tbody th')]).map((cell) => cell.textContent ?? '');
    expect(names()).toEqual([...Array.from({ length: 10 }, (_one, index) => `D${index}/0`), '▸D30/0 chosen']);
    await page.click('button', 'Show 21 more streams, 480 tokens at most');
    expect(names()).toHaveLength(32);
    expect(globalThis.location.hash).toContain('open=matches');
  });

  it('asks again by itself while it is being found out why a request missed', async () => {
    const { page, transport } = await show(rowsTo(6));
    await using _ = page;
    transport.answer('requests.why', ({ id }) => sampleReport(id, { state: 'unavailable', isPending: true, reason: 'the prompt is being made tokens', ranges: [] }));
    await page.press('j');
    await page.until(() => page.text().includes('Why a miss'));
    await page.click('[role="tab"]', 'Why a miss');
    await page.until(() => page.text().includes('Being found out: the prompt is being made tokens.'));
    expect(page.text()).not.toContain('cannot be told');
    transport.answer('requests.why', ({ id }) => sampleReport(id, { isOpened: true }));
    await page.until(() => page.text().includes('prompt tokens'));
    expect(page.text()).toContain('explained when opened');
  });

  it('says why it cannot be told, and asks again', async () => {
    const { page, transport } = await show(rowsTo(6));
    await using _ = page;
    transport.answer('requests.why', ({ id }) => sampleReport(id, { state: 'unavailable', reason: 'no instance could tokenise the prompt (POST /tokenize: 404)', ranges: [] }));
    await page.press('j');
    await page.until(() => page.text().includes('Why a miss'));
    await page.click('[role="tab"]', 'Why a miss');
    await page.until(() => page.text().includes('▲ Why it missed cannot be told: no instance could tokenise the prompt'));
    transport.answer('requests.why', ({ id }) => sampleReport(id, { reportedCachedTokens: 64 }));
    await page.click('button', 'Ask again');
    await page.until(() => page.text().includes('▲ the engine found 64'));
    expect(transport.calls.filter(({ name }) => name === 'requests.why')).toHaveLength(2);
  });

  it('shows what every candidate held of the prompt, and why the policy fell back', async () => {
    const { page, transport } = await show(rowsTo(6));
    await using _ = page;
    transport.answer('requests.get', ({ id }) => {
      const detail = sampleDetail(rowsTo(6).find((row) => row.id === id) ?? rowsTo(1)[0] ?? failedRow(1));
      const [decision] = detail.decisions;
      if (decision === undefined) throw new Error('the sample has decisions');
      const [first, ...rest] = decision.candidates;
      if (first === undefined) throw new Error('the sample has candidates');
      return {
        ...detail,
        decisions: [{ ...decision, policy: 'prefix-aware', degraded: 'no answer to /tokenize within 20 ms', promptTokens: 1600, tokensFrom: 'render', candidates: [{ ...first, matchedTokens: 640, matchedBlocks: 40, confidence: 0.864 }, ...rest] }],
      };
    });
    await page.press('j');
    await page.until(() => page.text().includes('Routing'));
    await page.click('[role="tab"]', 'Routing');
    await page.until(() => page.text().includes('▲ prefix-aware balanced load instead: no answer to /tokenize within 20 ms'));
    expect(page.text()).toContain('Matched by KV events against 1,600 prompt tokens, rendered by an instance.');
    const [line] = [...page.root.querySelectorAll('tbody tr')].map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent));
    expect(line?.slice(1, 5)).toEqual(['640', '40', '40.0 %', '86 %']);
  });

  it('folds a decision over many candidates to the chosen and the best, and counts those left out', async () => {
    const { page, transport } = await show(rowsTo(6));
    await using _ = page;
    const candidateAt = (index: number) => ({ instance: `p${index}` as InstanceId, name: `P${index}`, score: 100 - index, reason: `${100 - index} in flight` });
    let count = 16;
    transport.answer('requests.get', ({ id }) => {
      const detail = sampleDetail(rowsTo(6).find((row) => row.id === id) ?? failedRow(1));
      const [decision] = detail.decisions;
      if (decision === undefined) throw new Error('the sample has decisions');
      const excluded = [{ instance: 'p90' as InstanceId, name: 'P90', reason: 'down' }];
      return { ...detail, decisions: [{ ...decision, chosen: 'p3' as InstanceId, candidates: Array.from({ length: count }, (_one, index) => candidateAt(index)), excluded }] };
    });
    await act(async () => setUrlState({ selection: 'r6', tab: 'routing' }));
    const names = (): readonly string[] => [...page.root.querySelectorAll('table')].filter(({ caption }) => caption?.textContent?.includes('least-in-flight') === true).flatMap((table) => [...table.querySelectorAll('tbody th')]).map((cell) => cell.textContent ?? '');
    await page.until(() => names().length > 0);
    expect(names()).toEqual(['▸P3', 'P15', 'P14', 'P13', 'P12', 'P11', 'P10', 'P9']);
    await page.click('button', 'Show 8 more candidates, 1 excluded');
    expect(names()).toHaveLength(17);
    expect(names().at(-1)).toBe('P90');
    expect(globalThis.location.hash).toContain('open=candidates-1');
    await page.click('button', 'Show the best 8 only');
    expect(names()).toHaveLength(8);
    count = 14;
    await act(async () => setUrlState({ selection: 'r5' }));
    await page.until(() => names().length === 15);
    expect(names()[0]).toBe('P0');
    expect(page.text()).not.toContain('more candidate');
  });

  it('asks the engine for a filter, not the page', async () => {
    const { page, transport } = await show(rowsTo(3));
    await using _ = page;
    await act(async () => setUrlState({ filter: 'status:5xx' }));
    await page.until(() => transport.subscription('requests').options.filter === 'status:5xx');
    await act(async () => transport.snapshot('requests', { rows: [], counters: counters(9, 0), omitted: 0 }));
    await page.until(() => page.text().includes('The filter hides everything'));
    expect(page.text()).toContain('9 requests kept by the engine, none matches: status:5xx. 7 older ones are no longer kept.');
    await act(async () => transport.snapshot('requests', { rows: [], counters: { ...counters(9, 0), total: 9, evicted: 0 }, omitted: 0 }));
    await page.until(() => page.text().includes('none matches: status:5xxClear the filter'));
    await page.click('button', 'Clear the filter');
    expect(globalThis.location.hash).not.toContain('q=');
  });

  it('shows the answer to a filter although a row was selected while it was on its way', async () => {
    const { page, transport } = await show(rowsTo(3));
    await using _ = page;
    const isBusy = (): string | null | undefined => page.root.querySelector('[role="grid"]')?.getAttribute('aria-busy');
    expect(isBusy()).toBe('false');
    await act(async () => setUrlState({ filter: 'status:5xx' }));
    expect(isBusy()).toBe('true');
    await act(async () => {
      page.root.querySelector('[data-row-id="r2"]')?.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true, button: 0 }));
    });
    expect(ids(page)).toEqual(['r3', 'r2', 'r1']);
    await act(async () => transport.snapshot('requests', { rows: [failedRow(4)], counters: counters(4, 1), omitted: 0 }));
    await page.until(() => isBusy() === 'false');
    expect(ids(page)).toEqual(['r4']);
  });

  it('tells no instances from no traffic', async () => {
    const { page, transport } = await show([]);
    await using _ = page;
    expect(page.text()).toContain('No requests yet');
    expect(page.text()).toContain('curl -N http://127.0.0.1:8000/v1/chat/completions');
    await act(async () => transport.snapshot('state', { state: sampleState({ instances: [] }) }));
    await page.until(() => page.text().includes('No instances'));
  });

  it('pauses: what is shown stays, what arrives is counted', async () => {
    const { page, transport } = await show(rowsTo(3));
    await using _ = page;
    await page.click('button', 'pause');
    await act(async () => transport.subscription('requests').handler.onDelta({ rows: [sampleRow(5), sampleRow(6)], counters: counters(5), omitted: 0 }));
    await page.until(() => page.text().includes('2 arrived'));
    expect(ids(page)).toEqual(['r3', 'r2', 'r1']);
    await page.press('p');
    await page.until(() => ids(page).length === 5);
    expect(ids(page)[0]).toBe('r6');
  });

  it('keeps a pinned request, with its detail, when the engine has forgotten it', async () => {
    const { page, transport } = await show(rowsTo(3));
    await using _ = page;
    await page.press('j');
    await page.until(() => page.root.querySelector('[data-testid="ttft-sum"]') !== null);
    await page.press('m');
    transport.answer('requests.get', () => {
      throw new PdscopeError('not_found', 'Request is no longer kept.');
    });
    await act(async () => transport.snapshot('requests', { rows: [], counters: counters(0), omitted: 0 }));
    await page.until(() => ids(page).length === 1);
    expect(ids(page)).toEqual(['r3']);
    await act(async () => setUrlState({ selection: '' }));
    await act(async () => setUrlState({ selection: 'r3' }));
    await page.until(() => page.text().includes('Shown as last seen: Request is no longer kept.'));
    expect(page.root.querySelector('[data-testid="ttft-sum"]')).not.toBeNull();
  });

  it('compares the selected request with the pinned one', async () => {
    const { page } = await show(rowsTo(11));
    await using _ = page;
    await act(async () => setUrlState({ selection: 'r10' }));
    await page.until(() => page.root.querySelector('[data-testid="ttft-sum"]') !== null);
    await page.press('m');
    await act(async () => setUrlState({ selection: 'r9', tab: 'compare' }));
    await page.until(() => page.text().includes('Phase by phase'));
    const line = [...page.root.querySelectorAll('tr')].find((row) => row.textContent?.startsWith('remote-KV wait'));
    expect(line?.textContent).toBe('remote-KV wait718 ms42.0 ms−676');
  });

  it('opens a link to a comparison: the pin is asked for, stands at the top, and gives way when the engine has forgotten it', async () => {
    setUrlState({ view: 'requests', selection: 'r9', tab: 'compare', pick: 'r10' });
    const { page, transport } = await show(rowsTo(11));
    await using _ = page;
    await page.until(() => page.text().includes('Phase by phase'));
    expect(ids(page).slice(0, 2)).toEqual(['r10', 'r11']);
    transport.answer('requests.get', ({ id }) => {
      if (id === 'r99') throw new PdscopeError('not_found', 'Request is no longer kept.');
      return sampleDetail(sampleRow(9));
    });
    await act(async () => setUrlState({ pick: 'r99' }));
    await page.until(() => page.text().includes('The pinned request r99 cannot be compared: Request is no longer kept.'));
    await page.click('button', 'Unpin r99');
    expect(globalThis.location.hash).not.toContain('pick=');
    expect(page.root.querySelector('[role="tab"][aria-selected="true"]')?.textContent).toBe('Waterfall');
  });

  it('shows what is pinned and folded in the link, and folds the same when the link is opened', async () => {
    const { page } = await show(rowsTo(6));
    await using _ = page;
    await page.press('j');
    await page.until(() => page.root.querySelector('[data-testid="ttft-sum"]') !== null);
    await page.press('m');
    expect(globalThis.location.hash).toContain('pick=r6');
    await page.press('m');
    expect(globalThis.location.hash).not.toContain('pick=');
    const folds = (): readonly string[] => [...page.root.querySelectorAll<HTMLDetailsElement>('details[open] > summary')].map((summary) => summary.textContent ?? '');
    await act(async () => setUrlState({ tab: 'hops', open: 'client-headers', hidden: 'params-received-1' }));
    await page.until(() => folds().some((title) => title.startsWith('request headers')));
    expect(folds()).not.toContain('kv_transfer_params received');
    const [first] = page.root.querySelectorAll('details');
    if (first === undefined) throw new Error('there is no fold');
    await act(async () => {
      first.open = false;
      first.dispatchEvent(new Event('toggle'));
    });
    expect(globalThis.location.hash).not.toContain('open=');
  });

  it('says when the engine does not know the request of a link', async () => {
    const { page } = await show(rowsTo(2));
    await using _ = page;
    await act(async () => setUrlState({ selection: 'r99' }));
    await page.until(() => page.root.querySelector('[role="alert"]') !== null);
    expect(page.root.querySelector('[role="alert"]')?.textContent).toBe('✕ Request is no longer kept.');
  });

  it('marks a row with its worst verdict, and shows each verdict at its hop', async () => {
    const verdicts = [sampleVerdict(), sampleVerdict({ code: 'no_tp_size', severity: 'error', title: 'No tp_size', hop: 'proxy->decode', instance: 'd2' as InstanceId, effect: 'hangs', isBlocked: true })];
    const rows = [sampleRow(1), sampleRow(2, { findings: { count: 2, worst: 'error' } })];
    const { page, transport } = await show(rows);
    await using _ = page;
    expect(page.root.querySelector('[data-row-id="r2"]')?.textContent).toContain('✕ error 2');
    transport.answer('requests.get', () => sampleDetail(sampleRow(2), { verdicts }));
    await act(async () => setUrlState({ selection: 'r2' }));
    await page.until(() => page.root.querySelector('[aria-label="Findings on this request"]') !== null);
    const all = [...page.root.querySelectorAll('[aria-label="Findings on this request"] li')].map((item) => item.textContent ?? '');
    expect(all[0]).toMatch(/^✕ error.*No tp_size proxy->decode · D2 · hangs the engine · leg held back/);
    expect(all[1]).toContain('Next step: Start P0 with a transfer configuration.');
    await act(async () => setUrlState({ tab: 'hops' }));
    await page.until(() => page.text().includes('on no recorded leg'));
    expect(page.root.querySelector('[aria-label="Findings on the prefill leg"]')?.textContent).toContain('Prefill handed over nothing');
    expect(page.root.querySelector('[aria-label="Findings on no recorded leg"]')?.textContent).toContain('No tp_size');
  });

  it('says what a forwarded request asked for', async () => {
    const forwarded = sampleRow(3, { api: 'forward', path: '/v1/embeddings', isStream: false, route: [{ kind: 'forward', instance: 'd0' as InstanceId, name: 'D0' }], phases: [] });
    const { page } = await show([forwarded]);
    await using _ = page;
    await act(async () => setUrlState({ selection: 'r3', tab: 'hops' }));
    await page.until(() => page.text().includes('/v1/embeddings'));
    expect([...page.root.querySelectorAll('dt')].find((term) => term.textContent === 'path')?.nextElementSibling?.textContent).toBe('/v1/embeddings');
  });

  it('folds dozens of encode legs into one line per tab', async () => {
    const row = sampleRow(2);
    const { page, transport } = await show([row]);
    await using _ = page;
    const detail = sampleDetail(row);
    transport.answer('requests.get', () => ({ ...detail, legs: [...sampleEncodeLegs(24), ...detail.legs] }));
    await act(async () => setUrlState({ selection: 'r2', tab: 'hops' }));
    await page.until(() => page.text().includes('24 encode legs: 21 ok, 3 error; 12.0 to 34.0 ms'));
    expect(page.text()).toContain('pdscope → E0 ×12, E1 ×12');
    expect(page.text()).toContain('E1 ✕ 500 error, sent at 3.4 ms, took 15.0 ms: encoder out of memory');
    await act(async () => setUrlState({ tab: '' }));
    await page.click('button', 'a lane for each of the 24 encode legs');
    await page.until(() => page.text().includes('one lane for the 24 encode legs'));
  });
});
