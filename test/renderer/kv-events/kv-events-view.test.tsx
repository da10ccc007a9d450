import { act } from 'react';
import { afterEach, describe, expect, it } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import type { StreamId } from '#shared/ids.ts';
import type { KvRow } from '#shared/kv.ts';
import { KvEventsView } from '../../../renderer/src/features/kv-events/kv-events-view.tsx';
import { HotkeyBinder } from '../../../renderer/src/shell/hotkeys.tsx';
import { setUrlState } from '../../../renderer/src/url/use-url-state.ts';
import { sampleBlock, sampleFrames } from '../cache/sample-cache.ts';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';
import { sampleState } from '../fixtures/sample-state.ts';
import { withLayout } from '../table/layout.ts';
import { gapRow, hashOf, sampleEvent } from './sample-events.ts';

const events = (from: number, to: number): readonly KvRow[] => Array.from({ length: to - from + 1 }, (_, index) => sampleEvent(from + index));
const counters = { total: 9_100_000, kept: 50_000, evicted: 9_050_000, dropped: 0, matching: 50_000 };

async function show(rows: readonly KvRow[], state = sampleState()): Promise<{ readonly page: Mounted; readonly transport: FakeTransport }> {
  const transport = new FakeTransport();
  transport.answer('kv.blocks', () => ({ blocks: [], matching: 12, total: 40_112, evicted: 3, byStream: [] }));
  const page = await mount(
    <>
      <HotkeyBinder />
      <KvEventsView />
    </>,
    transport,
  );
  await act(async () => {
    transport.snapshot('state', { state });
    transport.snapshot('kv', { rows, counters: rows.length === 0 ? { ...counters, kept: 0, matching: 0 } : counters, omitted: 0 });
  });
  await page.until(() => page.text().includes('shown'));
  return { page, transport };
}

const ids = (page: Mounted): readonly (string | undefined)[] => [...page.root.querySelectorAll<HTMLElement>('[data-row-id]')].map((row) => row.dataset['rowId']);

describe('KvEventsView', () => {
  withLayout(1100, 420);
  afterEach(() => {
    document.body.replaceChildren();
    setUrlState({ view: 'kv-events', filter: '', highlight: '', selection: '', tab: '', scope: '', metric: '', pick: '' });
  });

  it('lists events with sign and word, and gaps across the row', async () => {
    const { page } = await show([sampleEvent(3), sampleEvent(4), gapRow(5)]);
    await using _ = page;
    expect(ids(page)).toEqual(['5', '4', '3']);
    const [gap, removed, stored] = [...page.root.querySelectorAll<HTMLElement>('[data-row-id]')];
    expect(gap?.textContent).toContain('▲ gap: batches 96,102 to 96,124 (23) missing; replay answered with 23 in 0.3 s');
    expect(gap?.dataset['tone']).toBe('warning');
    expect(gap?.querySelector('[aria-colspan]')).not.toBeNull();
    expect(removed?.textContent).toContain('− removed');
    expect(stored?.textContent).toContain('+ stored');
    expect(stored?.textContent).toContain(`${hashOf(60).slice(0, 8)}… ← ${hashOf(59).slice(0, 8)}…`);
  });

  it('draws the rates of streams that the engine kept, and none as 0 before it told them', async () => {
    const state = sampleState();
    const [known] = state.streams;
    const { page, transport } = await show(events(1, 3), state);
    await using _ = page;
    const labels = (): readonly (string | null)[] => [...page.root.querySelectorAll('svg[aria-label*="events per second"]')].map((line) => line.getAttribute('aria-label'));
    expect(labels()).toHaveLength(state.streams.length);
    expect(labels().every((label) => label?.endsWith('events per second, not known yet'))).toBe(true);
    transport.answer('kv.rates', () => ({ stepS: 2, streams: [{ stream: known?.id ?? ('' as StreamId), perSecond: [4, null, 0, 12, 3] }] }));
    await page.until(() => labels().some((label) => label?.endsWith('up to 12')));
    const [ofKnown, others] = [labels().filter((label) => label?.endsWith('up to 12')), labels().filter((label) => label?.endsWith('not known yet'))];
    expect(ofKnown).toEqual(['P0/0: events per second, up to 12']);
    expect(others).toHaveLength(state.streams.length - 1);
    // Three steps of two seconds at the right end of two minutes, behind one when it was not connected, and one before.
    const path = page.root.querySelector('svg[aria-label*="up to"] path')?.getAttribute('d');
    expect(path?.match(/[MLh]/gu)).toEqual(['M', 'h', 'M', 'L', 'L']);
    expect(path).toMatch(/M73\.4 .*L76\.0 /u);
  });

  it('marks what a former life of the engine stored as stale, in the list and in the detail', async () => {
    const state = sampleState();
    const { page } = await show([sampleEvent(4), sampleEvent(5), sampleEvent(6)], { ...state, streams: state.streams.map((stream) => ({ ...stream, epochs: 2 })) });
    await using _ = page;
    const stored = [...page.root.querySelectorAll<HTMLElement>('[data-row-id]')].find((row) => row.textContent?.includes('+ stored'));
    expect(stored?.textContent).toContain('+ stored, stale');
    await act(async () => setUrlState({ selection: stored?.dataset['rowId'] ?? '' }));
    expect(page.text()).toContain('Epoch 1 is over: the engine started anew (now epoch 2), and the blocks stored then are gone');
  });

  it('shows the health of each stream, gaps with what they missed', async () => {
    const { page } = await show(events(1, 3));
    await using _ = page;
    const lines = [...page.root.querySelectorAll('details tbody tr')].map((line) => line.textContent ?? '');
    // One without a connection stands above the others, which keep their order.
    expect(lines.map((line) => line.slice(0, 4))).toEqual(['D1/0', 'P0/0', 'P1/0', 'D0/0', 'D2/0']);
    // The mark is that of the overview and the list of instances.
    expect(lines[0]).toContain('✕ lost');
    expect(lines[2]).toContain('○ silent');
    expect(lines[4]).toContain('▲ 1 (23)');
    expect(page.text()).toContain('streams: 3 of 5 live · 3.1k events/s · ▲ 1 gap');
    await page.click('button', 'D2/0');
    expect(globalThis.location.hash).toContain('q=stream%3AD2%2F0');
  });

  it('tells beside a stream when it missed batches or restarted, and what came of it', async () => {
    const { page, transport } = await show(events(1, 3));
    await using _ = page;
    const at = new Date(2026, 10, 20, 12, 3, 22, 104).getTime();
    const asked: string[] = [];
    transport.answer('kv.notes', ({ stream }) => {
      asked.push(stream);
      return {
        notes: [
          { kind: 'cleared', atUnixMs: at + 9000, firstAtUnixMs: at + 2000, times: 4 },
          { kind: 'gap', atUnixMs: at + 1000, from: 500, to: 509, epoch: 2, refused: 10, fate: { state: 'settled', filled: 4, lost: 6, afterMs: 1200, reason: 'the engine no longer keeps them' } },
          { kind: 'restart', atUnixMs: at + 500, epoch: 1, text: 'its clock is newer: the engine started anew' },
          { kind: 'gap', atUnixMs: at, from: 410, to: 412, epoch: 1, refused: 0, fate: { state: 'settled', filled: 3, lost: 0, afterMs: 38 } },
        ],
        older: 7,
      };
    });
    const line = [...page.root.querySelectorAll('details tbody tr')].find((one) => one.textContent?.startsWith('D2/0'));
    await act(async () => line?.querySelector<HTMLElement>('button[title*="Show when, and what came of it"]')?.click());
    const lines = (): readonly string[] => [...document.body.querySelectorAll('[aria-label="What happened to D2/0"] dl > div')].map((one) => one.textContent?.replaceAll(/\s/gu, ' ') ?? '');
    await page.until(() => lines().length > 0);
    expect(asked[0]).toBe('d2/0');
    expect(lines()).toEqual([
      '12:03:31.104× all blocks cleared, 4 times since 12:03:24.104',
      '12:03:23.104▲ gap of 10 batches (500 to 509), all refused by pdscope’s own full queue, 4 filled by replay and 6 lost 1.2 s later: the engine no longer keeps them',
      '12:03:22.604▲ epoch 1 is over: its clock is newer: the engine started anew',
      '12:03:22.104✓ gap of 3 batches (410 to 412), filled by replay 38 ms later',
    ]);
    expect(document.body.textContent).toContain('newest first; 7 older notes are not kept');
  });

  it('stays small under a flood, and owns up to what was left out', async () => {
    const { page, transport } = await show(events(1, 100));
    await using _ = page;
    for (let round = 0; round < 30; round += 1) {
      const from = 101 + round * 400;
      await act(async () => transport.subscription('kv').handler.onDelta({ rows: events(from, from + 399), counters, omitted: 1600 }));
    }
    await page.until(() => page.text().includes('omitted 48,000'));
    expect(page.text()).toContain('shown 10,000');
    expect(page.root.querySelectorAll('[data-row-id]').length).toBeLessThan(60);
    expect(ids(page)[0]).toBe('12100');
  });

  it('remembers the selected event after the list lost it', async () => {
    const { page, transport } = await show(events(1, 9));
    await using _ = page;
    await page.press('j');
    await page.until(() => page.text().includes('+ stored on D1/0'));
    expect(page.text()).toContain(hashOf(180));
    await act(async () => transport.snapshot('kv', { rows: events(500, 520), counters, omitted: 0 }));
    await page.until(() => page.text().includes('No longer kept by the engine'));
    expect(page.text()).toContain(hashOf(180));
    await page.click('button', 'Events of this block');
    expect(decodeURIComponent(globalThis.location.hash)).toContain(`q=hash:${hashOf(180)}`);
  });

  it('puts a filter into force when the typing stops, also while events stream in', async () => {
    const { page, transport } = await show(events(1, 9));
    await using _ = page;
    const input = page.root.querySelector<HTMLInputElement>('input[aria-label="Filter"]');
    await act(async () => {
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(input, 'type:stored');
      input?.dispatchEvent(new Event('input', { bubbles: true }));
    });
    // Each time `until` looks, another event has come: sooner than a typing pause is long.
    let n = 9;
    await page.until(() => {
      n += 1;
      transport.snapshot('kv', { rows: events(1, n), counters, omitted: 0 });
      return globalThis.location.hash.includes('q=type');
    });
    expect(transport.subscription('kv').options.filter).toBe('type:stored');
  });

  it('asks who holds a block', async () => {
    const { page, transport } = await show(events(1, 9));
    await using _ = page;
    await page.until(() => page.text().includes('matching 12 of 40,112 resident · ▲ 3 not tracked because the table was full'));
    await page.press('j');
    await page.until(() => page.text().includes('Who holds it'));
    await page.click('button', 'Who holds it');
    // Not the last call: rates of the streams are asked for meanwhile.
    const asked = (): unknown => transport.calls.find((call) => JSON.stringify(call).includes('"hash"'));
    await page.until(() => asked() !== undefined);
    expect(asked()).toEqual({ name: 'kv.blocks', input: { limit: 60, hash: hashOf(180) } });
  });

  it('shows the message of an event as it came, every digit of its hashes included', async () => {
    const { page, transport } = await show(events(1, 9));
    await using _ = page;
    transport.answer('kv.frames', ({ n }) => sampleFrames(n));
    await page.press('j');
    await page.until(() => page.text().includes('+ stored on D1/0'));
    await page.click('[role="tab"]', 'Raw frames');
    await page.until(() => page.text().includes('big-endian 48009'));
    expect(transport.calls.at(-1)).toEqual({ name: 'kv.frames', input: { n: 9 } });
    expect(page.text()).toContain('00000000 6b 76 2d 65 76 65 6e 74 73 kv-events');
    expect(page.text()).toContain('20,812 bytes (20.3 KiB)▲ cut after 154'.replace(' ', ' '));
    expect(page.text()).toContain('[11473219867613790209, 11473219867613790210]');
    transport.answer('kv.frames', () => {
      throw new PdscopeError('not_found', 'The frames of event 8 are no longer kept.');
    });
    await page.press('j');
    await page.until(() => page.text().includes('The frames of event 8 are no longer kept.'));
  });

  it('opens the block of an event, and its neighbours in place', async () => {
    const { page, transport } = await show(events(1, 9));
    await using _ = page;
    transport.answer('cache.block', ({ node, stream, hash }) => sampleBlock(node ?? 12, stream === undefined || hash === undefined ? {} : { hashes: [{ stream: stream as StreamId, instanceName: 'D1', hash }] }));
    await page.press('j');
    await page.until(() => page.text().includes('Block detail'));
    await page.click('button', 'Block detail');
    await page.until(() => page.text().includes('Block 12 of its prompt'));
    expect(transport.calls.findLast(({ name }) => name === 'cache.block')?.input).toEqual({ stream: 'd1/0', hash: hashOf(180) });
    await page.click('button', 'block #77');
    await page.until(() => transport.calls.some(({ name, input }) => name === 'cache.block' && JSON.stringify(input) === '{"node":77}'));
    expect(page.find('a', 'in the prefix tree').getAttribute('href')).toBe('#/cache?sel=77&tab=tree');
  });

  it('says of each stream what replay brought, what is lost, and how far it can be trusted', async () => {
    const state = sampleState();
    const [first, ...rest] = state.streams;
    if (first === undefined) throw new Error('the sample has streams');
    const { page } = await show(events(1, 3), {
      ...state,
      streams: [
        { ...first, gaps: 3, missedBatches: 40, gapsFilled: 1, missedFilled: 10, missedLost: 30, confidence: 0.86, reasons: [{ code: 'batches-lost', text: '30 batches were lost.', weight: 0.14 }], replay: { state: 'asking', asked: 2, failed: 0, batches: 10 }, coverage: { applied: 970, unseen: 0, lost: 30, unreadable: 0, share: 0.97 } },
        ...rest,
      ],
    });
    await using _ = page;
    // Below the one that lost its connection, above those that are sound.
    const lines = [...page.root.querySelectorAll('details tbody tr')].map((row) => row.textContent ?? '');
    expect(lines.map((text) => text.slice(0, 4))).toEqual(['D1/0', 'P0/0', 'P1/0', 'D0/0', 'D2/0']);
    const line = lines[1];
    expect(line).toContain('▲ 3 · 1 · 30');
    expect(line).toContain('◌ asking');
    expect(line).toContain('97.0 %');
    expect(page.find('button', 'confidence 86 %. Why not 100 %. P0/0: 30 batches were lost.').textContent).toBe('▲ 86 %');
    expect(page.text()).toContain('▲ 4 gaps, 1 filled · ▲ 30 batches lost');
  });

  it('tells no stream from none connected from nothing said yet', async () => {
    const { page, transport } = await show([]);
    await using _ = page;
    expect(page.text()).toContain('Connected, no events yet');
    const state = sampleState();
    await act(async () => transport.snapshot('state', { state: { ...state, streams: state.streams.map((stream) => ({ ...stream, state: 'lost' as const })) } }));
    await page.until(() => page.text().includes('No stream is connected'));
    await act(async () => transport.snapshot('state', { state: { ...state, streams: [] } }));
    await page.until(() => page.text().includes('No KV-event stream'));
    expect(page.text()).toContain('--kv-events-config');
  });
});
