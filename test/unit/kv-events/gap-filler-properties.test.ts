import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { Model, type ReplayMode } from './lives.ts';
import { rig } from './receiver-rig.ts';

const mode: fc.Arbitrary<ReplayMode> = fc.oneof(
  { weight: 3, arbitrary: fc.constant<ReplayMode>({ kind: 'complete' }) },
  fc.record({ kind: fc.constant('partial' as const), replies: fc.nat(6) }),
  fc.constant<ReplayMode>({ kind: 'none' }),
);
const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('batch' as const), arrivals: fc.constantFrom(0, 0, 1, 1, 1, 2) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const), sentBefore: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'reconnect' as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('mode' as const), mode }) },
);

describe('any interleaving of live batches, losses, repeats, restarts and replays', () => {
  it('applies what the model applies, when it comes to rest in between', async () => {
    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.constantFrom(2, 5, 1000), mode, async (steps, capacity, firstMode) => {
      const { engine, network, receiver, epochs, rest } = rig({ capacity });
      const model = new Model(engine);
      network.mode = firstMode;
      network.connect();
      model.connected(network.mode, false);
      await rest();
      for (const one of steps) {
        if (one.kind === 'mode') network.mode = one.mode;
        else if (one.kind === 'batch') {
          const sent = engine.publish();
          for (let arrival = 0; arrival < one.arrivals; arrival += 1) {
            network.deliver(sent);
            await rest();
            model.live(sent, network.mode);
          }
        } else {
          network.disconnect();
          if (one.kind === 'restart') {
            engine.restart();
            for (let n = 0; n < one.sentBefore; n += 1) engine.publish();
          }
          network.connect();
          await rest();
          model.connected(network.mode, true);
        }
      }
      await receiver.close();
      const { missedBatches, missedLost, missedFilled, duplicateBatches } = receiver.applier.tracker;
      expect({ epochs, missed: missedBatches, lost: missedLost, duplicates: duplicateBatches })
        .toEqual({ epochs: model.epochs.filter(({ length }) => length > 0), missed: model.missed, lost: model.lost, duplicates: model.duplicates });
      expect(missedFilled + missedLost).toBe(missedBatches);
    }), { numRuns: 200 });
  });

  it('applies nothing twice and nothing out of order, and adds up, when nothing waits for anything', async () => {
    await fc.assert(fc.asyncProperty(fc.array(fc.tuple(step, fc.nat(3)), { maxLength: 80 }), fc.constantFrom(3, 1000), fc.constantFrom(3, 10_000), async (steps, capacity, queue) => {
      const { engine, network, receiver, epochs, rest } = rig({ capacity, queue });
      const sent = new Map<number, number>();
      const publish = () => {
        const batch = engine.publish();
        sent.set(batch.life, batch.seq + 1);
        return batch;
      };
      network.connect();
      for (const [one, turns] of steps) {
        if (one.kind === 'mode') network.mode = one.mode;
        else if (one.kind === 'batch') {
          const batch = publish();
          for (let arrival = 0; arrival < one.arrivals; arrival += 1) network.deliver(batch);
        } else {
          network.disconnect();
          if (one.kind === 'restart') {
            engine.restart();
            for (let n = 0; n < one.sentBefore; n += 1) publish();
          }
          network.connect();
        }
        for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      }
      await rest();
      const hasFailed = (receiver.filler?.view().failed ?? 0) > 0;
      network.mode = { kind: 'complete' };
      network.deliver(publish());
      await rest();
      network.deliver(publish());
      await rest();
      // An engine that keeps too little cannot always be told from a new one: an epoch given up for that begins empty, and may repeat.
      for (const part of capacity < 1000 ? epochs : [epochs.flat()]) {
        const all = part.map(({ life, seq }) => life * 1000 + seq);
        expect(new Set(all).size).toBe(all.length);
        expect(all).toEqual(all.toSorted((a, b) => a - b));
      }
      const { missedBatches, missedFilled, missedLost, sawStart } = receiver.applier.tracker;
      expect(missedFilled + missedLost).toBe(missedBatches);
      expect(epochs.at(-1)?.at(-1)).toEqual({ life: engine.life, seq: (sent.get(engine.life) ?? 0) - 1 });
      // With every answer whole, and a buffer for all of it, the last life is complete; what an older one took with it is lost.
      const isComplete = hasFailed || capacity < 1000 || (epochs.at(-1)?.length === sent.get(engine.life) && sawStart && (engine.life > 1 || missedLost === 0));
      expect(isComplete).toBe(true);
      await receiver.close();
    }), { numRuns: 200 });
  });
});
