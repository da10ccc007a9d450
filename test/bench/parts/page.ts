/**
 * The built page in a real Chromium while KV events come in: frames per second and the longest frame of the views that
 * show them, and how busy the page's main thread is. The demo cluster makes requests meanwhile; further instances
 * publish the events. Browsers here have no GPU, and share the machine with engine, demo and publisher.
 */
import { chromium, type CDPSession, type Page } from '@playwright/test';
import { printTable } from '../figures.ts';
import { startHeadless, type Headless } from '../headless.ts';
import { startPublisher } from '../kv-publisher.ts';
import { startMockCluster } from '../mock-cluster.ts';
import { medianOf, pause, TOKENS_PER_SECOND, type Part } from '../part.ts';

const EVENTS_PER_SECOND = 20_000;
/** One block an event, as decoding stores them. */
const SHAPE = { blocksPerEvent: 1, eventsPerBatch: 16 } as const;
const STREAMS = 4;
/** Of a view, before it is measured. */
const SETTLE_MS = 2000;

interface View {
  readonly name: string;
  readonly path: string;
  readonly tab?: string;
}

const VIEWS: readonly View[] = [
  { name: 'Overview', path: 'overview' },
  { name: 'KV events, following', path: 'kv-events' },
  { name: 'Cache: Hits', path: 'cache', tab: 'Hits' },
  { name: 'Cache: Residency', path: 'cache', tab: 'Residency' },
  { name: 'Cache: Prefix tree', path: 'cache', tab: 'Prefix tree' },
];

interface PageFigures {
  readonly framesPerSecond: number;
  readonly longestMs: number;
  /** Share of the time that the main thread ran something, and what of it was script, layout and style. */
  readonly busy: number;
  readonly script: number;
  readonly layout: number;
  readonly eventsPerSecond: number;
}

export const pagePart: Part = {
  name: 'page',
  run: async ({ rounds, seconds }) => {
    const executablePath = process.env['CHROMIUM_PATH'] ?? '';
    if (executablePath === '') {
      console.log('\nThe page in a browser: skipped, no Chromium was found (set CHROMIUM_PATH)');
      return;
    }
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'] });
    // Not asked for anything but their health; any server's address will do for an instance that publishes.
    const mocks = await Promise.all(Array.from({ length: STREAMS / 2 }, async () => await startMockCluster({ tokens: 1, tokensPerSecond: TOKENS_PER_SECOND }, { prefill: 0, decode: 0 })));
    try {
      await using host = await startHeadless(['--demo']);
      await using publisher = await startPublisher({ streams: STREAMS, shape: SHAPE });
      await addInstances(host, mocks.flatMap(({ prefill, decode }) => [prefill, decode]), publisher.endpoints);
      const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
      await page.goto(host.loginUrl);
      await page.getByText('engine connected').waitFor();
      const protocol = await page.context().newCDPSession(page);
      await protocol.send('Performance.enable');
      const idle = await measure(page, protocol, { host, seconds });
      publisher.begin(EVENTS_PER_SECOND);
      const results = VIEWS.map((): PageFigures[] => []);
      for (let round = 0; round < rounds; round += 1) {
        for (const [at, view] of VIEWS.entries()) {
          await open(page, view);
          results[at]?.push(await measure(page, protocol, { host, seconds }));
        }
      }
      await publisher.halt();
      const rows = [['Overview, before the events', idle] as const, ...VIEWS.map(({ name }, at) => [name, medianOf(results[at] ?? [])] as const)];
      printTable(
        `The page at ${EVENTS_PER_SECOND.toLocaleString('en-US')} KV events/s (aim: above 30 frames/s; headless Chromium ${browser.version()} without GPU, on the same cores as engine, demo and publisher)`,
        ['view', 'frames/s', 'longest frame ms', 'main thread busy', 'script', 'layout and style', 'events/s received'],
        rows.map(([name, f]) => [name, f.framesPerSecond, f.longestMs, percent(f.busy), percent(f.script), percent(f.layout), f.eventsPerSecond]),
      );
    } finally {
      await browser.close();
      for (const mock of mocks) await mock.close();
    }
  },
};

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** Instances that publish and answer probes; requests must not go there. */
async function addInstances(host: Headless, urls: readonly string[], endpoints: readonly string[]): Promise<void> {
  for (const [at, endpoint] of endpoints.entries()) {
    const { id } = await host.call('instance.add', { role: 'decode', url: urls[at] ?? '', name: `flood${at}`, kvEvents: { endpoint }, force: true });
    await host.call('instance.disable', { id });
  }
}

async function open(page: Page, { path, tab }: View): Promise<void> {
  await page.evaluate(`location.hash = '#/${path}'`);
  await page.locator('main h1').waitFor();
  if (tab !== undefined) await page.getByRole('tab', { name: tab, exact: true }).click();
  await pause(SETTLE_MS);
}

interface Frames {
  readonly frames: number;
  readonly longestMs: number;
  readonly ms: number;
}

/** Counts animation frames in the page; text, because this file is no browser's. */
const COUNT_FRAMES = (ms: number): string => `new Promise((resolve) => {
  const startedMs = performance.now();
  let frames = 0, lastMs = startedMs, longestMs = 0;
  const count = () => {
    const nowMs = performance.now();
    frames += 1;
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
    if (nowMs - startedMs < ${ms}) requestAnimationFrame(count);
    else resolve({ frames, longestMs, ms: nowMs - startedMs });
  };
  requestAnimationFrame(count);
})`;

async function measure(page: Page, protocol: CDPSession, { host, seconds }: { readonly host: Headless; readonly seconds: number }): Promise<PageFigures> {
  const before = await costs(protocol);
  const eventsBefore = (await host.call('state.get', {})).rings.kv.total;
  const { frames, longestMs, ms } = (await page.evaluate(COUNT_FRAMES(seconds * 1000))) as Frames;
  const after = await costs(protocol);
  const events = (await host.call('state.get', {})).rings.kv.total - eventsBefore;
  const share = (name: string): number => ((after.get(name) ?? 0) - (before.get(name) ?? 0)) / (ms / 1000);
  return {
    framesPerSecond: (frames / ms) * 1000,
    longestMs,
    busy: share('TaskDuration'),
    script: share('ScriptDuration'),
    layout: share('LayoutDuration') + share('RecalcStyleDuration'),
    eventsPerSecond: (events / ms) * 1000,
  };
}

/** Seconds of the page's main thread so far, by kind (Performance.getMetrics of the DevTools protocol). */
async function costs(protocol: CDPSession): Promise<ReadonlyMap<string, number>> {
  const { metrics } = await protocol.send('Performance.getMetrics');
  return new Map(metrics.map(({ name, value }) => [name, value]));
}
