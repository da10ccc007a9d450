/** Waiting for an engine's KV-event streams, and sums over them. */
import type { EngineState } from '#shared/state.ts';
import { pause } from './part.ts';
import type { ProxyHandle, Usage } from './proxy-handle.ts';

const CONNECT_DEADLINE_MS = 15_000;
const SETTLE_DEADLINE_MS = 60_000;
const POLL_MS = 250;

export interface KvTotals {
  /** Batches applied. */
  readonly applied: number;
  /** Messages that the engine's own full queue refused. */
  readonly dropped: number;
  readonly resident: number;
}

export function totalsOf({ streams }: EngineState): KvTotals {
  return {
    applied: streams.reduce((sum, stream) => sum + stream.batches, 0),
    dropped: streams.reduce((sum, stream) => sum + stream.droppedMessages, 0),
    resident: streams.reduce((sum, stream) => sum + stream.resident.reduce((blocks, r) => blocks + r.blocks, 0), 0),
  };
}

/** Resolves once every stream has its connection. */
export async function connected(engine: ProxyHandle): Promise<void> {
  for (const deadline = performance.now() + CONNECT_DEADLINE_MS; ; await pause(100)) {
    const { streams } = (await engine.usage()).state;
    if (streams.every(({ state }) => state === 'silent' || state === 'live')) return;
    if (performance.now() > deadline) throw new Error(`KV streams do not connect: ${streams.map(({ state }) => state).join(', ')}`);
  }
}

/** The engine once nothing more is applied: what was queued has been worked off. */
export async function settled(engine: ProxyHandle): Promise<Usage> {
  const deadline = performance.now() + SETTLE_DEADLINE_MS;
  for (let last = -1; ; await pause(POLL_MS)) {
    const usage = await engine.usage();
    const { applied, dropped } = totalsOf(usage.state);
    if (applied + dropped === last || performance.now() > deadline) return usage;
    last = applied + dropped;
  }
}
