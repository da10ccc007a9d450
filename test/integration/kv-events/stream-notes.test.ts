/** What happened to a stream is told after its rows left with the flood: over real sockets. */
import { expect, it } from 'vitest';
import { KvEvents } from '#engine/kv-events/kv-events.ts';
import { streamId } from '#shared/ids.ts';
import type { KvNote, KvNotes } from '#shared/kv-notes.ts';
import type { KvReplayView } from '#shared/kv.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';
import { P0, config, indexed, until } from './publisher.ts';
import { ScriptedEngine, enginePorts } from './scripted-engine.ts';

const STREAM = streamId(P0.id, 0);
const ROWS = 50;

it('tells when a gap was found and filled, and when the engine started anew, after the rows of both are gone', async () => {
  const { endpoint, replayEndpoint, ...ports } = await enginePorts();
  const events = new KvEvents({ ...indexed(), replayTimeoutMs: WAIT_LIMIT_MS, capacity: ROWS });
  const told = (): KvNotes => events.notes(STREAM);
  const ofKind = <K extends KvNote['kind']>(kind: K) => told().notes.filter((note): note is Extract<KvNote, { readonly kind: K }> => note.kind === kind);
  const batches = (): number | undefined => events.streams()[0]?.batches;
  const replay = (): KvReplayView | undefined => events.streams()[0]?.replay;
  const before = Date.now();
  try {
    {
      await using engine = await ScriptedEngine.started(ports);
      events.attach(P0, config({ endpoint, replayEndpoint }));
      await engine.subscribed();
      await until(() => replay()?.layout !== undefined && replay()?.state === 'idle', 'first contact');
      await engine.publish(0);
      await until(() => batches() === 1, 'the first batch');
      for (const hash of [1, 2, 3]) await engine.publish(hash, { isMissed: true });
      await engine.publish(4);
      await until(() => batches() === 5 && ofKind('gap')[0]?.fate.state === 'settled', 'the gap');
    }
    await until(() => ofKind('disconnected').length > 0, 'the end of the connection');
    await using engine = await ScriptedEngine.started({ ...ports, ts: Date.now() / 1000 + 1 });
    await engine.subscribed();
    await engine.publish(10);
    await until(() => ofKind('restart').length > 0 && batches() === 6, 'the new life');
    for (let hash = 11; hash < 11 + 2 * ROWS; hash += 1) await engine.publish(hash);
    await until(() => batches() === 6 + 2 * ROWS, 'the flood');

    expect(Array.from(events.log.rows(), ({ kind }) => kind)).toEqual(Array.from({ length: ROWS }, () => 'stored'));
    const [gap, ...otherGaps] = ofKind('gap');
    expect(otherGaps).toEqual([]);
    expect(gap).toMatchObject({ from: 1, to: 3, epoch: 1, refused: 0, fate: { state: 'settled', filled: 3, lost: 0 } });
    const [restart, ...otherRestarts] = ofKind('restart');
    expect(otherRestarts).toEqual([]);
    expect(restart).toMatchObject({ epoch: 1, text: expect.stringContaining('the engine started anew') as string });
    const order = told().notes.map(({ kind }) => kind);
    expect(order.indexOf('restart')).toBeLessThan(order.indexOf('disconnected'));
    expect(order.lastIndexOf('disconnected')).toBeLessThan(order.indexOf('gap'));
    expect(order.at(-1)).toBe('connected');
    for (const { atUnixMs } of told().notes) {
      expect(atUnixMs).toBeGreaterThanOrEqual(before);
      expect(atUnixMs).toBeLessThanOrEqual(Date.now());
    }
    expect(() => events.notes(streamId(P0.id, 1))).toThrow('No KV event stream p0/1 is attached');
  } finally {
    await events.close();
  }
});
