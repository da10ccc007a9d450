/**
 * A simulated engine's stream killed, restarted and gapped while the page is watched: each shows by itself, in every view
 * that rests on the stream, with the reason beside the figure.
 */
import type { Locator, Page } from '@playwright/test';
import type { KvStreamView } from '#shared/kv.ts';
import { addAside } from './support/aside.ts';
import { expect, openView, takePicture, test } from './support/fixtures.ts';
import type { HeadlessHost } from './support/headless-host.ts';
import { LiveList } from './support/live-list.ts';
import { SimulatedEngine } from './support/simulated-engine.ts';

interface Watched {
  readonly engine: SimulatedEngine;
  /** What the host says of the stream. */
  readonly stream: () => Promise<KvStreamView>;
  /** Its line among the streams of the KV events view. */
  readonly line: (page: Page) => Locator;
}

async function watched(host: HeadlessHost, name: string, use: (watched: Watched) => Promise<void>, { hasReplay = true } = {}): Promise<void> {
  const model = (await host.call('state.get', {})).instances[0]?.models[0] ?? '';
  await using engine = await SimulatedEngine.started({ name, model, hasReplay });
  const id = await addAside(host, { role: 'prefill', url: engine.url, name, kvEvents: engine.kvEvents });
  const stream = async (): Promise<KvStreamView> => {
    const found = (await host.call('state.get', {})).streams.find(({ instanceName }) => instanceName === name);
    if (found === undefined) throw new Error(`no stream of ${name}`);
    return found;
  };
  try {
    await expect.poll(async () => (await stream()).state).toBe('silent');
    await engine.subscribed();
    await use({ engine, stream, line: (page) => page.getByRole('region', { name: 'KV-event streams' }).getByRole('row').filter({ hasText: `${name}/0` }) });
  } finally {
    await host.call('instance.remove', { id, force: true });
  }
}

/** Columns of a stream's line. */
const cell = (line: Locator, column: 'state' | 'confidence' | 'gaps' | 'seq' | 'epochs' | 'resident'): Locator => line.locator('td').nth({ state: 0, confidence: 1, gaps: 4, seq: 7, epochs: 8, resident: 12 }[column]);
const trust = (within: Locator): Locator => within.getByRole('button', { name: /^confidence \d+ %/ });

/** Leaves a mark that a reload would take away. */
async function neverReloads(page: Page): Promise<() => Promise<void>> {
  await page.evaluate(() => document.documentElement.setAttribute('data-watched', 'yes'));
  return async () => expect(page.locator('html')).toHaveAttribute('data-watched', 'yes');
}

test('a stream that is killed, started again and gapped says so by itself, with the reason beside its confidence', async ({ app, host }) => {
  await openView(app, 'kv-events');
  const list = new LiveList(app, 'kv-events');
  const wasNotReloaded = await neverReloads(app);
  await watched(host, 'W0', async ({ engine, stream, line }) => {
    const own = line(app);
    await engine.work(3);
    await expect(cell(own, 'state')).toContainText('live');
    await expect(trust(own)).toHaveText('100 %');
    await expect(cell(own, 'gaps')).toHaveText('0');
    const [old] = (await host.call('kv.blocks', { stream: (await stream()).id })).blocks;
    if (old === undefined) throw new Error('nothing is resident');

    // Gapped, with a replay: found and filled.
    await engine.loseBatches(3);
    await expect(cell(own, 'gaps')).toHaveText('1 · 1 · 0');
    await expect(trust(own)).toHaveText('100 %');
    await list.filterBy('instance:W0 type:gap,filled,lost');
    await expect(list.rows.nth(0)).toContainText('filled: 3 batches');
    await expect(list.rows.nth(1)).toContainText('gap: 3 batches');
    // The sentence has the width of the row, not of its last column.
    const sentence = list.rows.nth(1).getByRole('gridcell').last();
    expect(await sentence.evaluate((element) => element.clientWidth / (element.parentElement?.clientWidth ?? 1))).toBeGreaterThan(0.7);

    // Killed: what was known stays, and is worth less.
    await engine.kill();
    await expect(cell(own, 'state')).toContainText('lost');
    await expect(trust(own)).not.toHaveText(/100 %/);
    await expect(trust(own)).toHaveAccessibleName(/The connection is broken: stores and removals since then are unknown/);
    await trust(own).hover();
    await expect(own.getByRole('tooltip')).toContainText('The connection is broken');
    await takePicture(app, 'stream-killed');
    await app.mouse.move(0, 0);
    await openView(app, 'instances');
    const listed = app.getByRole('table', { name: 'Instances' }).getByRole('row').filter({ hasText: 'W0' });
    await expect(listed).toContainText('lost');
    await openView(app, 'cache');
    await app.getByRole('tab', { name: 'Residency', exact: true }).click();
    await app.getByRole('button', { name: 'table', exact: true }).click();
    const residency = app.getByRole('row').filter({ hasText: 'W0/0' });
    await expect(trust(residency)).toHaveAccessibleName(/The connection is broken/);

    // Started again: a new epoch, and nothing of the old one counts as resident.
    await engine.startAgain();
    await engine.work(1);
    await expect(trust(residency)).toHaveText('100 %');
    await openView(app, 'kv-events');
    await expect(cell(own, 'state')).toContainText('live');
    await expect(cell(own, 'epochs')).toHaveText('2');
    // What the new life published may still be arriving: then the two counts are of different moments.
    await expect.poll(async () => {
      const { id, resident } = await stream();
      const { matching } = await host.call('kv.blocks', { stream: id });
      return matching > 0 && resident.length === 1 && resident[0]?.medium === 'GPU' && resident[0].blocks === matching;
    }).toBe(true);
    await expect(trust(own)).toHaveText('100 %');
    await list.filterBy('instance:W0 type:restart');
    await expect(list.rows.first()).toContainText('the engine started anew, its blocks are gone');
    await list.filterBy(`instance:W0 hash:${old.hash}`);
    await expect(list.rows.first()).toContainText('stored, stale');
    await list.select();
    const detail = app.getByRole('region', { name: 'Event and resident blocks' });
    await expect(detail).toContainText('Epoch 1 is over');
    await detail.getByRole('tab', { name: 'Block', exact: true }).click();
    await expect(detail.getByRole('region', { name: 'History of the block' })).toContainText('engine restarted');
    await expect(detail).toContainText('nobody now');
    await takePicture(app, 'stream-restarted');
  });
  await wasNotReloaded();
});

test('a gap that nothing can fill is lost, and every figure of the stream says so', async ({ app, host }) => {
  await openView(app, 'kv-events');
  const list = new LiveList(app, 'kv-events');
  const wasNotReloaded = await neverReloads(app);
  await watched(host, 'W1', async ({ engine, line }) => {
    const own = line(app);
    await engine.work(3);
    await expect(trust(own)).toHaveText('100 %');
    await engine.loseBatches(4);
    await expect(cell(own, 'gaps')).toHaveText('▲ 1 · 0 · 4');
    await expect(trust(own)).not.toHaveText(/100 %/);
    await trust(own).hover();
    await expect(own.getByRole('tooltip')).toContainText('4 batches lost: blocks stored there are unknown, and blocks removed there still count as resident.');
    await takePicture(app, 'stream-gapped');
    await list.filterBy('instance:W1 type:gap');
    await expect(list.rows.first()).toContainText('gap: 4 batches');
    await openView(app, 'cache');
    await app.getByRole('tab', { name: 'Residency', exact: true }).click();
    await app.getByRole('button', { name: 'table', exact: true }).click();
    await expect(trust(app.getByRole('row').filter({ hasText: 'W1/0' }))).toHaveAccessibleName(/4 batches lost/);
    await openView(app, 'instances');
    await expect(app.getByRole('table', { name: 'Instances' }).getByRole('row').filter({ hasText: 'W1' })).toContainText('4 missed');
  }, { hasReplay: false });
  await wasNotReloaded();
});
