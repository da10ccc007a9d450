/** RSS of the demo process after as many requests as an hour of demo traffic has. */
import { startProxyProcess } from './proxy-handle.ts';

/** What the demo offers by default: 6 requests a second. */
const HOUR_OF_REQUESTS = 6 * 3600;
const FASTER_RPS = 150;

export interface MemoryFigures {
  readonly requests: number;
  readonly kvEvents: number;
  readonly kept: number;
  readonly resident: number;
  readonly rssStartBytes: number;
  /** As it stands, garbage included. */
  readonly rssEndBytes: number;
  /** After a full collection. */
  readonly rssCollectedBytes: number;
}

export async function measureMemory(): Promise<MemoryFigures> {
  const engine = await startProxyProcess({ instances: [], demo: { prefill: 2, decode: 3, requestsPerSecond: FASTER_RPS } });
  const start = await engine.usage();
  let now = start;
  const deadline = Date.now() + 400_000;
  while (now.state.totals.received < HOUR_OF_REQUESTS && Date.now() < deadline) {
    await new Promise((resolve) => {
      setTimeout(resolve, 2000);
    });
    now = await engine.usage();
  }
  const collected = await engine.memory();
  await engine.stop();
  return {
    requests: now.state.totals.received,
    kvEvents: now.state.rings.kv.total,
    kept: now.state.rings.requests.kept,
    resident: now.state.streams.reduce((sum, stream) => sum + stream.resident.reduce((blocks, r) => blocks + r.blocks, 0), 0),
    rssStartBytes: start.rssBytes,
    rssEndBytes: now.rssBytes,
    rssCollectedBytes: collected.rssBytes,
  };
}
