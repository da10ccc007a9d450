import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DecodePump } from '#engine/kv-events/decode-pump.ts';
import { FrameRing } from '#engine/kv-events/frame-ring.ts';
import { IntakeTurn } from '#engine/kv-events/intake-turn.ts';
import { KvRowLog } from '#engine/kv-events/kv-row-log.ts';
import { KvStream } from '#engine/kv-events/kv-stream.ts';
import { SharedBindings } from '#engine/kv-events/shared-bindings.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { identity } from '../kv-index/events.ts';
import { EngineBuffer, Network } from './lives.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'Date'], now: 1_800_000_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

it('tells a rate of 0 while an engine is idle, and none while its stream is not connected', async () => {
  const engine = new EngineBuffer(10);
  const network = new Network(engine);
  const pump = new DecodePump({ messages: 100, bytes: 1e9 });
  const stream = new KvStream({
    pump, intake: new IntakeTurn(), replayTurn: new IntakeTurn(2), log: new KvRowLog({ capacity: 10, maxBytes: 1e6, dropped: () => 0 }), frames: new FrameRing({ maxBytes: 1 << 12 }),
    identity: identity('p0'), endpoint: 'tcp://127.0.0.1:1', mode: 'connect', topic: '', bindings: new SharedBindings(), books: new KvIndex({ capacity: 1000 }),
    onGap: () => undefined, onPhase: () => undefined, subscribe: network.subscribe,
  });
  stream.open();
  vi.advanceTimersByTime(4000);
  network.connect();
  vi.advanceTimersByTime(4000);
  network.deliver(engine.publish([['AllBlocksCleared']]));
  do await new Promise((resolve) => setImmediate(resolve)); while (pump.queuedMessages > 0);
  vi.advanceTimersByTime(2000);
  network.disconnect();
  vi.advanceTimersByTime(4000);
  expect(stream.rateHistory()).toEqual([undefined, undefined, undefined, 0, 0.5, undefined, undefined]);
  await stream.close();
});
