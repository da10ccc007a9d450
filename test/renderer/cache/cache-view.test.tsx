import { act } from 'react';
import { afterEach, describe, expect, it } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import type { RecordId, StreamId } from '#shared/ids.ts';
import type { EngineState } from '#shared/state.ts';
import { CacheView } from '../../../renderer/src/features/cache/cache-view.tsx';
import { HotkeyBinder } from '../../../renderer/src/shell/hotkeys.tsx';
import { setUrlState } from '../../../renderer/src/url/use-url-state.ts';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';
import { sampleState } from '../fixtures/sample-state.ts';
import { withLayout } from '../table/layout.ts';
import { sampleBlock, sampleDifference, sampleHits, samplePage, sampleResidency, sampleResidencyRow, sampleStorms, sampleSummary, SURE } from './sample-cache.ts';

function answering(): FakeTransport {
  const transport = new FakeTransport();
  transport.answer('cache.hits', (input) => sampleHits(input));
  transport.answer('cache.misses', () => sampleSummary());
  transport.answer('cache.residency', ({ cells = 2048 }) => sampleResidency(cells));
  transport.answer('cache.tree', ({ node }) => samplePage(node));
  transport.answer('cache.search', () => ({ matches: samplePage(undefined).children.slice(0, 2), matchedTokens: 96, askedTokens: 120, confidence: SURE }));
  transport.answer('cache.difference', () => sampleDifference());
  transport.answer('cache.storms', () => sampleStorms());
  transport.answer('cache.block', ({ node }) => sampleBlock(node ?? 0));
  return transport;
}

async function show(url: Parameters<typeof setUrlState>[0], transport = answering(), state: EngineState = sampleState()): Promise<Mounted> {
  setUrlState({ view: 'cache', tab: '', filter: '', selection: '', scope: '', metric: '', form: '', open: '', hidden: '', pick: '', ...url });
  const page = await mount(
    <>
      <HotkeyBinder />
      <CacheView />
    </>,
    transport,
  );
  await act(async () => transport.snapshot('state', { state }));
  return page;
}

const lines = (page: Mounted): readonly HTMLElement[] => [...page.root.querySelectorAll<HTMLElement>('[role="treeitem"]')];
const calls = (transport: FakeTransport, name: string): readonly unknown[] => transport.calls.filter((call) => call.name === name).map(({ input }) => input);
const key = (element: HTMLElement, name: string): Promise<void> => act(async () => void element.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true })));

describe('CacheView', () => {
  withLayout(1100, 520);
  afterEach(() => {
    document.body.replaceChildren();
    setUrlState({ view: 'cache', tab: '', filter: '', selection: '', scope: '', metric: '', form: '', open: '', hidden: '', pick: '' });
  });

  it('shows the causes that matter with examples, and the tail under its sum until it is opened', async () => {
    const tail = Array.from({ length: 4 }, (_, at) => ({ id: `t${at}`, kind: 'diverges' as const, title: `tail ${at}`, tokens: 10, share: 0.0001, requests: [], requestCount: 1 }));
    const heavy = { id: 'h', kind: 'diverges' as const, title: 'timestamp in the system prompt', tokens: 99_960, share: 0.9996, requests: [], requestCount: 9, examples: [{ id: 'r7' as RecordId, n: 7, token: 96, asked: '27 UTC', held: '10 UTC' }] };
    const transport = answering();
    transport.answer('cache.misses', () => sampleSummary({ causes: [heavy, ...tail] }));
    await using page = await show({ tab: 'causes' }, transport);
    await page.until(() => page.text().includes('timestamp in the system prompt'));
    expect(page.text()).toContain('#7 after 96 tokens: “27 UTC”, where “10 UTC” is held');
    expect(page.text()).not.toContain('tail 0');
    const fold = [...page.root.querySelectorAll('button')].find((button) => button.textContent.includes('4 other causes: < 0.1 %, 40 tokens'));
    expect(fold?.getAttribute('aria-expanded')).toBe('false');
    await act(async () => fold?.click());
    expect(fold?.getAttribute('aria-expanded')).toBe('true');
    expect(page.text()).toContain('tail 3');
  });

  it('says of how many requests the causes are, and what was left out of them', async () => {
    const transport = answering();
    const unexplained = [{ reason: 'more requests came than are explained by themselves', requests: 1580 }];
    transport.answer('cache.misses', () => sampleSummary({ requests: 412, of: 2000, opened: 8, openable: 700, reachesS: 222, unexplained }));
    await using page = await show({ tab: 'causes' }, transport);
    await page.until(() => page.text().includes('requests explained'));
    expect(page.text()).toContain('of 2,000, 20.6 %');
    expect(page.text()).toContain('8 requests explained since somebody opened them, and left out here');
    expect(page.text()).toContain('Records reach back 222 s only');
    expect(page.text()).toContain('700 requests of them when opened');
  });

  it('keeps hit rates apart by source, and says how far the index can be trusted', async () => {
    await using page = await show({});
    await page.until(() => page.text().includes('Disagreements'));
    const tiles = [...page.root.querySelectorAll('[aria-label="Hit rate by source"] dt')].map((label) => label.textContent);
    expect(tiles).toEqual(['engine, local', 'engine, external', 'prompt by source', 'cached_tokens, P', 'cached_tokens, D', 'pdscope’s index']);
    const trust = page.root.querySelector('button[aria-label^="confidence 86 %"]');
    expect(trust?.getAttribute('aria-label')).toContain('D2/0: 23 batches were lost in a gap');
    // The index is a sample, and says of what. A bare 86 % before that would read as a share of these requests.
    expect(page.text()).toContain('▲ confidence 86 % · 212 of 3,140 requests');
    expect(page.text()).toContain('▲ 85.0 pt');
    expect(page.text()).toContain('The index believes in blocks that the engine no longer has');
    await page.click('button', 'table');
    await page.until(() => page.text().includes('45.6 % of 300k'));
    const p1 = [...page.root.querySelectorAll('tbody tr')].find((row) => row.querySelector('th')?.textContent === 'P1');
    // cached_tokens of P1 said nothing: a dash, not 0 %.
    expect(p1?.querySelectorAll('td')[3]?.textContent).toBe('—');
  });

  it('keeps the section in the link, and nothing of the section before', async () => {
    await using page = await show({ tab: 'residency', metric: 'reuse' });
    await page.until(() => page.text().includes('times stored or announced again'));
    await page.click('[role="tab"]', 'Prefix tree');
    expect(globalThis.location.hash).toBe('#/cache?tab=tree');
    await page.until(() => lines(page).length > 0);
  });

  it('shows from a link what was hidden or put into a table', async () => {
    await using hits = await show({ form: 'table', hidden: 'index,engine-local' });
    await hits.until(() => hits.root.querySelector('tbody tr') !== null);
    await hits.click('button', 'chart');
    expect(globalThis.location.hash).toBe('#/cache?hide=index%2Cengine-local');
    const pressed = (): readonly (string | null)[] => [...hits.root.querySelectorAll('[aria-label="Lines"] button[aria-pressed="false"]')].map((button) => button.textContent);
    expect(pressed()).toEqual(['engine, local', 'pdscope’s index']);
    await hits.click('button', 'engine, local');
    expect(pressed()).toEqual(['pdscope’s index']);
    await hits.click('[role="tab"]', 'Causes');
    expect(globalThis.location.hash).toBe('#/cache?tab=causes');
  });

  it('opens from a link the nodes of the tree that were open, and closes all', async () => {
    const transport = answering();
    const node = samplePage(undefined).children[0]?.node ?? 0;
    await using tree = await show({ tab: 'tree', open: `nonsense,${node}` }, transport);
    await tree.until(() => lines(tree).some((line) => line.getAttribute('aria-level') === '2'));
    await tree.click('button', 'close all');
    expect(globalThis.location.hash).toBe('#/cache?tab=tree');
  });

  it('maps residency, counts what it cannot place, and has the same as a table by keyboard', async () => {
    const transport = answering();
    await using page = await show({ tab: 'residency' }, transport);
    await page.until(() => page.text().includes('36,596 blocks placed'));
    expect(page.text()).toContain('▲ 311 blocks unplaced');
    expect([...page.root.querySelectorAll('canvas')].map((canvas) => canvas.getAttribute('aria-label'))[0]).toContain('P0/0: 9881 blocks, coloured by time since the block was stored');
    await page.click('button', 'table');
    const region = page.find('[role="region"]', 'Cells of P0/0');
    const open = [...region.querySelectorAll('button')];
    expect(open.length).toBeGreaterThan(5);
    await act(async () => open[2]?.click());
    expect(globalThis.location.hash).toContain('sel=3');
    await page.until(() => calls(transport, 'cache.block').length > 0);
    expect(calls(transport, 'cache.block')[0]).toEqual({ node: 3 });
  });

  it('gives other media than the GPU rows of their own, and them no capacity', async () => {
    const transport = answering();
    const [gpu] = sampleResidency(2048).rows;
    if (gpu === undefined) throw new Error('no sample row');
    const { capacityBlocks: _, ...rest } = gpu;
    transport.answer('cache.residency', () => ({ ...sampleResidency(2048), rows: [gpu, { ...rest, medium: 'CPU', blocks: 40_000 }] }));
    await using page = await show({ tab: 'residency', form: 'table' }, transport);
    await page.until(() => page.text().includes('P0/0 CPU'));
    const rowsOf = [...page.root.querySelectorAll('tbody tr')].map((row) => [...row.querySelectorAll('th, td')].slice(0, 4).map((cell) => cell.textContent));
    expect(rowsOf).toEqual([[expect.stringContaining('P0/0'), '9,881', '16,384', '6,503'], [expect.stringContaining('P0/0 CPU'), '40,000', '—', '—']]);
  });

  it('opens the tree by keyboard, asks only for what is open, and shows the block', async () => {
    const transport = answering();
    await using page = await show({ tab: 'tree' }, transport);
    await page.until(() => lines(page).length > 5);
    expect(calls(transport, 'cache.tree')).toEqual([{ orderBy: 'blocks', limit: 200 }]);
    const tree = page.find('[role="tree"]', 'Prefix tree');
    const [first] = lines(page);
    expect(first?.getAttribute('aria-expanded')).toBe('false');
    expect(first?.getAttribute('aria-setsize')).toBe('12');
    await key(tree, 'ArrowRight');
    const opened = Number(first?.dataset['node']);
    await page.until(() => calls(transport, 'cache.tree').some((input) => (input as { node?: number }).node === opened));
    await page.until(() => lines(page).some((line) => line.getAttribute('aria-level') === '2' && line.dataset['node'] !== undefined));
    await key(tree, 'ArrowRight');
    await key(tree, 'Enter');
    const child = lines(page).find((line) => line.getAttribute('aria-level') === '2')?.dataset['node'];
    expect(globalThis.location.hash).toContain(`sel=${child}`);
    await page.until(() => page.text().includes('Block 12 of its prompt'));
    expect(page.text()).toContain('3 earlier stays no longer kept.');
    await page.press('Escape');
    expect(globalThis.location.hash).not.toContain('sel=');
  });

  it('walks from a block to the one that displaced it', async () => {
    await using page = await show({ tab: 'tree', selection: '12' });
    await page.until(() => page.text().includes('displaced by'));
    await page.click('button', 'block #77');
    expect(globalThis.location.hash).toContain('sel=77');
  });

  it('searches by text or tokens, and tells a prefix that nobody has', async () => {
    const transport = answering();
    await using page = await show({ tab: 'tree', filter: '151644, 8948' }, transport);
    await page.until(() => page.text().includes('96 of 120 tokens indexed (80.0 %)'));
    expect(calls(transport, 'cache.search')[0]).toEqual({ tokens: [151_644, 8948], limit: 100 });
    transport.answer('cache.search', () => ({ matches: samplePage(undefined).children.slice(0, 1), matchedTokens: 3, askedTokens: 3, isInside: true, confidence: SURE }));
    await act(async () => setUrlState({ filter: 'some words' }));
    await page.until(() => page.text().includes('3 of 3 tokens found inside prompts'));
    transport.answer('cache.search', () => ({ matches: [], matchedTokens: 0, askedTokens: 4, confidence: SURE }));
    await act(async () => setUrlState({ filter: 'nobody' }));
    await page.until(() => page.text().includes('Nothing held begins like this'));
    await page.click('button', 'Clear the search');
    expect(globalThis.location.hash).not.toContain('q=');
  });

  it('says what was sent although it was there, and never invents a size', async () => {
    const transport = answering();
    const { bytes: _bytes, copyBytes: _copyBytes, ...onlyLeft } = sampleDifference().onlyLeft;
    transport.answer('cache.difference', () => sampleDifference({ onlyLeft }));
    await using page = await show({ tab: 'difference' }, transport);
    await page.until(() => page.text().includes('on both'));
    const row = (name: string): string => [...page.root.querySelectorAll('tbody tr')].find((one) => one.querySelector('th')?.textContent?.includes(name))?.textContent ?? '';
    expect(row('on P only')).toContain('9,881158,09624.6 %—12,400——');
    // Content, copies, memory of all copies, and what of it is beyond the first.
    expect(row('on both')).toContain('2.3\u2009GiB51,2006.3\u2009GiB4.0\u2009GiB');
    expect(page.text()).toContain('Sizes by P and D: 8,192 bytes a token, worked out from P0’s model and cache configuration.');
    expect(row('received by D')).toContain('561,0004.3\u2009GiB——vllm:prompt_tokens_by_source, external_kv_transfer, of 3 of 3 instances; size as NIXL counted it');
    expect(row('held by D when its leg was sent')).toContain('310,000—34.4 %');
    expect(row('held by D when its leg was sent')).toContain('in 1,150 of 1,200 decode legs that fetched KV');
    expect(row('stored again though D held it')).toContain('second copies of 4,210 blocks');
    expect(row('▲ sent though D had it')).toContain('67,360526\u2009MiB12.0 %✕ 31 %');
  });

  it('sums up causes and links the requests that show them', async () => {
    await using page = await show({ tab: 'causes' });
    await page.until(() => page.text().includes('62.0 %'));
    expect(page.text()).toContain('diverges after 96 tokens: "Current time: 2026-11-20T14:"');
    expect(page.text()).toContain('403,186 tokens in 311 requests: #59 #58 #57 #56 #55 #54 and 305 more');
    expect(page.text()).toContain('12 requests: no instance could tokenise the prompt');
    await page.click('a', '#59');
    expect(globalThis.location.hash).toBe('#/requests?sel=r59&tab=why');
  });

  it('draws storms with a caption, marks of role, and lanes in the order of the table by instance', async () => {
    const transport = answering();
    const storms = sampleStorms();
    // The answer has the newest first: not what the table is sorted by.
    transport.answer('cache.storms', () => ({ ...storms, storms: [...storms.storms].reverse() }));
    await using page = await show({ tab: 'storms', windowMin: 5 }, transport);
    await page.until(() => page.text().includes('Storms by stream'));
    const timeline = page.root.querySelector('figure');
    const lanes = [...timeline?.querySelectorAll('text') ?? []].map((text) => text.textContent ?? '').filter((text) => text.includes('/'));
    const instances = [...page.find('section', 'By instance').querySelectorAll('tbody th')].map((cell) => cell.textContent);
    expect(instances).toEqual(['P1', 'D0']);
    expect(lanes).toEqual(['P1/0', 'D0/0']);
    expect([...timeline?.querySelectorAll('[data-role]') ?? []].map((mark) => mark.getAttribute('data-role'))).toEqual(['prefill', 'decode']);
  });

  it('maps no 0 blocks for a stream that was never heard, and a 0 for one that was', async () => {
    const state = sampleState();
    const transport = answering();
    const row = (name: string) => ({ ...sampleResidencyRow(name, 0, 2048), capacityBlocks: 2048 });
    transport.answer('cache.residency', () => ({ ...sampleResidency(2048), rows: [sampleResidencyRow('P0', 9881, 2048), row('P1'), row('D0')] }));
    const streams = state.streams.map((stream) => (stream.id === 'p1/0' ? { ...stream, state: 'connecting' as const, batches: 0, resident: [] } : stream));
    await using page = await show({ tab: 'residency', form: 'table' }, transport, { ...state, streams });
    await page.until(() => page.root.querySelectorAll('tbody tr').length === 3);
    const figures = [...page.root.querySelectorAll('tbody tr')].map((line) => [...line.querySelectorAll('td')].slice(0, 5).map((cell) => cell.textContent));
    expect(figures[1]).toEqual(['—', '2,048', '—', '—', '—']);
    expect(figures[2]).toEqual(['0', '2,048', '2,048', '0', '1']);
    await act(async () => setUrlState({ form: '' }));
    await page.until(() => page.text().includes('none known: no batch of its events was received'));
    expect(page.text()).toContain('— of 2,048');
    expect(page.text()).toContain('no placed block0 of 2,048');
  });

  it('lists storms with their samples', async () => {
    await using page = await show({ tab: 'storms', windowMin: 5 });
    await page.until(() => page.text().includes('▲ 812'));
    expect(page.text()).toContain('Storms · 3');
    expect(page.text()).toContain('Needed again on P1');
    expect(page.text()).not.toContain('too few at a time');
  });

  it('says how many blocks came back too few at a time for a storm', async () => {
    const transport = answering();
    transport.answer('cache.storms', () => sampleStorms({ fewBlocks: 3 }));
    await using page = await show({ tab: 'storms', windowMin: 5 }, transport);
    await page.until(() => page.text().includes('Besides, 3 blocks came back too few at a time for a storm, which is 16 blocks and 1.0 % of what a stream holds at least'));
    transport.answer('cache.storms', () => sampleStorms({ storms: [], fewBlocks: 1 }));
    await using empty = await show({ tab: 'storms', windowMin: 5 }, transport);
    await empty.until(() => empty.text().includes('1 block came back too few at a time for a storm, which is'));
    expect(empty.text()).toContain('No eviction storm');
  });

  it('tells no stream, none connected, unknown tokens, an empty index and a narrowing apart', async () => {
    const transport = answering();
    transport.answer('cache.tree', ({ instance }) => samplePage(undefined, { children: [], omitted: 0, totalNodes: instance === undefined ? 0 : 40_112, confidence: SURE }));
    const state = sampleState();
    await using page = await show({ tab: 'tree' }, transport, { ...state, streams: [] });
    await page.until(() => page.text().includes('No KV-event stream'));
    const withStreams = async (change: Partial<EngineState['streams'][number]>): Promise<void> =>
      act(async () => transport.snapshot('state', { state: { ...state, streams: state.streams.map((stream) => ({ ...stream, ...change })) } }));
    await withStreams({ state: 'lost' });
    await page.until(() => page.text().includes('No stream is connected'));
    await withStreams({ state: 'live', sawStart: false });
    await page.until(() => page.text().includes('No tokens are known'));
    expect(page.text()).toContain('(5 streams joined late)');
    await withStreams({ state: 'live', resident: [] });
    await page.until(() => page.text().includes('Nothing is indexed yet'));
    await act(async () => setUrlState({ scope: 'd0' }));
    await page.until(() => page.text().includes('The narrowing hides everything'));
    await page.click('button', 'Show all instances');
    expect(globalThis.location.hash).not.toContain('in=');
  });

  it('shows the engine’s own words when it refuses', async () => {
    const transport = answering();
    transport.answer('cache.block', () => {
      throw new PdscopeError('not_found', 'The index no longer has block 12.');
    });
    await using page = await show({ tab: 'storms', selection: `${'p0/0' as StreamId}:9f3ac4d1` }, transport);
    await page.until(() => page.text().includes('The index no longer has block 12.'));
    expect(calls(transport, 'cache.block')[0]).toEqual({ stream: 'p0/0', hash: '9f3ac4d1' });
  });
});
