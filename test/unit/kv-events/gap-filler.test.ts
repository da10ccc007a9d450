import { describe, expect, it } from 'vitest';
import type { Batch } from './lives.ts';
import { rig } from './receiver-rig.ts';

const seqs = (batches: readonly Batch[] | undefined): number[] | undefined => batches?.map(({ seq }) => seq);

describe('GapFiller', () => {
  it('gets what was sent before the first contact, then goes on live', async () => {
    const { engine, network, receiver, epochs, rest, notes } = rig();
    for (let n = 0; n < 3; n += 1) engine.publish();
    network.connect();
    network.deliver(engine.publish());
    await rest();
    expect(seqs(epochs[0])).toEqual([0, 1, 2, 3]);
    expect(receiver.applier.tracker).toMatchObject({ sawStart: true, gaps: 0, missedBatches: 0 });
    expect(notes).toEqual(['filled: 4 batches from before this subscription came by replay, up to 3']);
  });

  it.each([
    [3, 'the 3 batches before 3 were never seen: the engine keeps those from 3 on'],
    [1, 'the batch before 1 was never seen: the engine keeps those from 1 on'],
  ])('says what it could not get of the time before: %i batches', async (missing, note) => {
    const { engine, network, receiver, epochs, rest, notes } = rig({ capacity: 2 });
    for (let n = 0; n < missing + 2; n += 1) engine.publish();
    network.connect();
    await rest();
    expect(seqs(epochs[0])).toEqual([missing, missing + 1]);
    expect(receiver.applier.tracker).toMatchObject({ sawStart: false, firstSeq: missing, gaps: 0, missedLost: 0 });
    expect(notes[1]).toBe(`lost: ${note}`);
  });

  it('fills a gap before the batch that showed it, and says so', async () => {
    const { engine, network, receiver, epochs, rest, notes } = rig();
    network.connect();
    network.deliver(engine.publish());
    await rest();
    for (let n = 0; n < 3; n += 1) engine.publish();
    network.deliver(engine.publish());
    await rest();
    expect(seqs(epochs[0])).toEqual([0, 1, 2, 3, 4]);
    expect(receiver.applier.tracker).toMatchObject({ gaps: 1, gapsFilled: 1, missedBatches: 3, missedFilled: 3, missedLost: 0 });
    expect(notes.slice(1)).toEqual(['gap: 3 batches (1 to 3) are missing; asking for them', 'filled: 3 batches (1 to 3) came by replay']);
  });

  it('covers gaps that follow each other by one replay, and leaves out live batches that it had', async () => {
    const { engine, network, receiver, epochs, rest } = rig();
    network.connect();
    network.deliver(engine.publish());
    await rest();
    const { asked } = network;
    for (let n = 1; n < 10; n += 1) {
      const sent = engine.publish();
      if (n % 3 === 0) network.deliver(sent);
    }
    await rest();
    expect(seqs(epochs[0])).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(network.asked - asked).toBe(1);
    expect(receiver.applier.tracker).toMatchObject({ gaps: 1, missedFilled: 2, duplicateBatches: 4 });
  });

  it('counts what the engine keeps no more as lost, and goes on', async () => {
    const { engine, network, receiver, epochs, rest, notes } = rig({ capacity: 3 });
    network.connect();
    network.deliver(engine.publish());
    await rest();
    for (let n = 0; n < 5; n += 1) engine.publish();
    network.deliver(engine.publish());
    await rest();
    expect(seqs(epochs[0])).toEqual([0, 4, 5, 6]);
    expect(receiver.applier.tracker).toMatchObject({ gaps: 1, gapsFilled: 0, missedBatches: 5, missedFilled: 2, missedLost: 3 });
    expect(notes.slice(2)).toEqual(['filled: 2 of 5 missing batches (1 to 5) came by replay', 'lost: 3 of 5 missing batches (1 to 5) are lost: the engine no longer keeps them']);
  });

  it('does not wait again at every gap while the socket is silent', async () => {
    const { engine, network, receiver, epochs, rest, notes } = rig({ backOffMs: 60_000 });
    network.mode = { kind: 'none' };
    network.connect();
    await rest();
    expect(network.asked).toBe(1);
    expect(receiver.filler?.view()).toMatchObject({ state: 'failed', reason: 'it stopped', asked: 1, failed: 1 });
    network.deliver(engine.publish());
    engine.publish();
    network.deliver(engine.publish());
    await rest();
    expect(network.asked).toBe(1);
    expect(seqs(epochs[0])).toEqual([0, 2]);
    expect(notes).toEqual(['error: replay: it stopped', 'gap: batch 1 is missing']);
    expect(receiver.applier.tracker).toMatchObject({ missedLost: 1 });
  });

  it('finds a restart whose sequence has passed the last one seen', async () => {
    const { engine, network, receiver, epochs, rest, notes } = rig();
    network.connect();
    for (let n = 0; n < 3; n += 1) network.deliver(engine.publish());
    await rest();
    network.disconnect();
    engine.restart();
    for (let n = 0; n < 5; n += 1) engine.publish();
    network.connect();
    network.deliver(engine.publish());
    await rest();
    expect(epochs.map((epoch) => epoch.map(({ life, seq }) => `${life}.${seq}`))).toEqual([['1.0', '1.1', '1.2'], ['2.0', '2.1', '2.2', '2.3', '2.4', '2.5']]);
    expect(receiver.applier.tracker).toMatchObject({ gaps: 0, sawStart: true, epoch: 2 });
    expect(notes[1]).toBe('restart: after a new connection the engine has another batch 2: the engine started anew, its blocks are gone');
  });

  it('finds a restart before the new life has sent anything', async () => {
    const { engine, network, receiver, rest } = rig();
    network.connect();
    for (let n = 0; n < 3; n += 1) network.deliver(engine.publish());
    await rest();
    network.disconnect();
    engine.restart();
    network.connect();
    await rest();
    expect(receiver.applier.tracker).toMatchObject({ epoch: 2, expected: 0, sawStart: true });
  });

  it('leaves out live batches of the old life that waited while the new one was found', async () => {
    const { engine, network, epochs, rest } = rig();
    network.connect();
    network.deliver(engine.publish());
    await rest();
    engine.publish();
    const late = engine.publish();
    network.disconnect();
    engine.restart();
    engine.publish();
    network.deliver(late);
    network.connect();
    await rest();
    expect(epochs.map((epoch) => epoch.map(({ life, seq }) => `${life}.${seq}`))).toEqual([['1.0'], ['2.0']]);
  });

  it('applies nothing of a socket that answers for another engine', async () => {
    const { engine: other, network, receiver, epochs, rest } = rig();
    for (let n = 0; n < 8; n += 1) other.publish();
    network.mode = { kind: 'none' };
    network.connect();
    await rest();
    network.deliver({ life: 7, seq: 1, ts: 5000 });
    await rest();
    network.mode = { kind: 'complete' };
    network.deliver({ life: 7, seq: 3, ts: 5002 });
    await rest();
    expect(epochs).toEqual([[{ life: 7, seq: 1 }, { life: 7, seq: 3 }]]);
    expect(receiver.filler?.view()).toMatchObject({ state: 'failed', reason: 'tcp://127.0.0.1:2 has another batch 1 than this stream sent: it answers for another engine' });
    expect(receiver.applier.tracker).toMatchObject({ epoch: 1, missedLost: 1 });
  });

  it('gives up what a socket of another engine brought at first contact, once live batches show it', async () => {
    const { engine: other, network, receiver, epochs, rest, notes } = rig({ backOffMs: 60_000 });
    for (let n = 0; n < 3; n += 1) other.publish();
    network.connect();
    await rest();
    expect(seqs(epochs[0])).toEqual([0, 1, 2]);
    network.deliver({ life: 7, seq: 9, ts: 5000 });
    await rest();
    network.deliver({ life: 7, seq: 10, ts: 5001 });
    await rest();
    expect(epochs.at(-1)).toEqual([{ life: 7, seq: 9 }, { life: 7, seq: 10 }]);
    expect(receiver.applier.tracker).toMatchObject({ epoch: 2, sawStart: false, firstSeq: 9 });
    expect(notes.at(-1)).toBe('restart: the replay socket tcp://127.0.0.1:2 answers for another engine: the blocks known so far are given up');
  });

  it('knows a buffer of no batches from another engine, and what was sent before as never seen rather than lost', async () => {
    const { engine, network, receiver, epochs, rest, notes } = rig({ capacity: 0, backOffMs: 60_000 });
    for (let n = 0; n < 5; n += 1) engine.publish();
    network.connect();
    await rest();
    network.deliver(engine.publish());
    await rest();
    expect(seqs(epochs[0])).toEqual([5]);
    expect(receiver.applier.tracker).toMatchObject({ epoch: 1, sawStart: false, firstSeq: 5, gaps: 0, missedBatches: 0, missedLost: 0 });
    const reason = "tcp://127.0.0.1:2 keeps no batches (buffer_steps 0 in the engine's kv-events config), or answers for an engine that has published none: gaps cannot be filled";
    expect(notes).toEqual(['gap: 5 batches (0 to 4) are missing; asking for them', `lost: the 5 batches before 5 were never seen: ${reason}`]);
    expect(receiver.filler?.view()).toMatchObject({ state: 'failed', reason });
    // A later gap is one; nobody is asked for it until the back-off is over.
    engine.publish();
    network.deliver(engine.publish());
    await rest();
    expect(seqs(epochs[0])).toEqual([5, 7]);
    expect(receiver.applier.tracker).toMatchObject({ epoch: 1, gaps: 1, missedBatches: 1, missedLost: 1 });
  });

  it('takes a buffer of no batches for no restart when the connection is made anew, once it is known', async () => {
    const { engine, network, receiver, epochs, rest, notes } = rig({ capacity: 0 });
    network.connect();
    network.deliver(engine.publish());
    engine.publish();
    network.deliver(engine.publish());
    await rest();
    network.disconnect();
    network.connect();
    await rest();
    network.deliver(engine.publish());
    await rest();
    expect(epochs.map(seqs)).toEqual([[0, 2, 3]]);
    expect(notes.filter((note) => note.startsWith('restart'))).toEqual([]);
    expect(receiver.applier.tracker).toMatchObject({ epoch: 1, gaps: 1, missedLost: 1 });
    // A restart shows as it does without a replay socket.
    network.disconnect();
    engine.restart();
    network.connect();
    await rest();
    network.deliver(engine.publish());
    await rest();
    expect(epochs.map(seqs)).toEqual([[0, 2, 3], [0]]);
  });

  it('gives up blocks once when nothing told an empty buffer from a restart, and counts nothing as lost for it', async () => {
    const { engine, network, receiver, epochs, rest } = rig({ capacity: 0 });
    network.connect();
    await rest();
    for (let n = 0; n < 3; n += 1) network.deliver(engine.publish());
    await rest();
    for (let round = 0; round < 2; round += 1) {
      network.disconnect();
      network.connect();
      await rest();
      network.deliver(engine.publish());
      await rest();
    }
    expect(epochs.map(seqs)).toEqual([[0, 1, 2], [3, 4]]);
    expect(receiver.applier.tracker).toMatchObject({ epoch: 2, firstSeq: 3, gaps: 0, missedBatches: 0, missedLost: 0 });
  });

  it('asks again when the connection is made anew while it asks', async () => {
    const { engine, network, epochs, rest, receiver } = rig();
    for (let n = 0; n < 4; n += 1) engine.publish();
    network.onReply = (index) => {
      if (index !== 2) return;
      network.onReply = undefined;
      network.disconnect();
      engine.restart();
      engine.publish();
      network.connect();
    };
    network.connect();
    await rest();
    expect(epochs.at(-1)).toEqual([{ life: 2, seq: 0 }]);
    expect(receiver.applier.tracker.epoch).toBe(2);
  });

  it('ends a replay that is running when it is closed', async () => {
    const { engine, network, receiver, epochs } = rig();
    for (let n = 0; n < 50; n += 1) engine.publish();
    let seen = 0;
    const reached = new Promise<void>((resolve) => {
      network.onReply = (index) => {
        seen = index;
        if (index === 5) resolve();
      };
    });
    network.connect();
    await reached;
    await receiver.close();
    const applied = epochs[0]?.length ?? 0;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(epochs[0]).toHaveLength(applied);
    expect(seen).toBeLessThan(49);
    expect(receiver.filler?.isAsking).toBe(false);
  });

  it('gets by replay what its own full queue refused', async () => {
    const { engine, network, receiver, epochs, rest } = rig({ queue: 4 });
    network.connect();
    for (let n = 0; n < 200; n += 1) network.deliver(engine.publish());
    await rest();
    network.deliver(engine.publish());
    await rest();
    expect(receiver.lane.dropped).toBeGreaterThan(100);
    expect(seqs(epochs[0])).toEqual(Array.from({ length: 201 }, (_, seq) => seq));
    expect(receiver.applier.tracker).toMatchObject({ missedLost: 0 });
  });
});
