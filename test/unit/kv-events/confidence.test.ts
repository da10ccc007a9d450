import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { streamConfidence, type StreamFacts } from '#engine/kv-events/confidence.ts';

const SOUND: StreamFacts = {
  state: 'live', applied: 100, unseen: 0, isKnownEmpty: false, lost: 0, waiting: 0, badMessages: 0, events: 400, badEvents: 0, unknownEvents: 0,
  removedBlocks: 50, unknownRemovals: 0, isLifeUncertain: false, strays: 0, isReplaying: false, lagMs: 20, hasSeveralPublishers: false, hasOtherRank: false, isRankTold: false, untold: undefined, residentBlocks: 500,
  untrackedBlocks: 0, displacedBlocks: 0,
};
const of = (part: Partial<StreamFacts>) => streamConfidence({ ...SOUND, ...part });
/** Codes and weights, rounded. */
const doubts = (part: Partial<StreamFacts>) => of(part).reasons.map(({ code, weight }) => [code, Number(weight.toFixed(3))]);

describe('streamConfidence', () => {
  it('is whole for a stream seen from its start, without loss', () => {
    expect(of({})).toEqual({ confidence: 1, reasons: [] });
    expect(of({ lagMs: undefined })).toEqual({ confidence: 1, reasons: [] });
    expect(of({ lagMs: -50_000 }).confidence).toBe(1);
  });

  it.each([
    [{ state: 'connecting' }, [['never-connected', 1]]],
    [{ state: 'failed' }, [['socket-failed', 1]]],
    [{ state: 'lost' }, [['connection-lost', 0.5]]],
    [{ state: 'silent', applied: 0 }, [['nothing-received', 0.5]]],
    [{ state: 'silent', applied: 0, isKnownEmpty: true }, []],
    [{ unseen: 300 }, [['joined-late', 0.375]]],
    [{ unseen: 300, applied: 29_700 }, [['joined-late', 0.005]]],
    [{ lost: 10 }, [['batches-lost', 0.273]]],
    [{ lost: 1, applied: 100_000 }, [['batches-lost', 0.01]]],
    [{ lost: 1000 }, [['batches-lost', 0.9]]],
    [{ isLifeUncertain: true }, [['life-uncertain', 0.3]]],
    [{ strays: 40 }, [['life-uncertain', 0.3]]],
    [{ strays: 40, isLifeUncertain: true }, [['life-uncertain', 0.3]]],
    [{ waiting: 5 }, [['batches-waiting', 0.143]]],
    [{ badMessages: 2 }, [['messages-unreadable', 0.059]]],
    [{ badEvents: 4 }, [['events-unreadable', 0.03]]],
    [{ unknownEvents: 40 }, [['events-unknown', 0.1]]],
    [{ unknownRemovals: 10 }, [['removals-unknown', 0.2]]],
    [{ isReplaying: true }, [['replaying', 0.05]]],
    [{ lagMs: 8000 }, [['lagging', 0.1]]],
    [{ lagMs: 9e12 }, [['lagging', 0.3]]],
    [{ hasSeveralPublishers: true }, [['shared-stream', 0.9]]],
    [{ hasOtherRank: true }, [['other-rank', 0.2]]],
    [{ untold: { requests: 1, blocks: 400 } }, [['stores-untold', 0.3]]],
    [{ untold: { requests: 2, blocks: 2 } }, [['stores-untold', 0.5]]],
    [{ untold: { requests: 9, blocks: 1500 } }, [['stores-untold', 0.75]]],
    [{ untold: { requests: 9, blocks: 90_000 } }, [['stores-untold', 0.9]]],
    [{ untrackedBlocks: 500 }, [['blocks-untracked', 0.5]]],
    [{ displacedBlocks: 7 }, [['blocks-displaced', 0.3]]],
  ] as const)('takes off for %o', (part, expected) => {
    expect(doubts(part)).toEqual(expected);
    expect(of(part).confidence).toBeCloseTo(1 - (expected[0]?.[1] ?? 0), 3);
  });

  it('multiplies what independent doubts leave, the heaviest first', () => {
    const { confidence, reasons } = of({ lost: 10, unseen: 100, isReplaying: true });
    expect(reasons.map(({ code }) => code)).toEqual(['batches-lost', 'joined-late', 'replaying']);
    expect(confidence).toBeCloseTo((1 - 30 / 110) * (1 - 0.25) * 0.95, 10);
  });

  it('takes unknown removals for an echo of what was missed, where something was', () => {
    expect(doubts({ unknownRemovals: 10, unseen: 1 }).map(([code]) => code)).toEqual(['joined-late']);
    expect(doubts({ unknownRemovals: 10, lost: 1 }).map(([code]) => code)).toEqual(['batches-lost']);
  });

  it('says what each doubt means for the numbers', () => {
    expect(of({ lost: 1 }).reasons[0]?.text).toBe('1 batch lost: blocks stored there are unknown, and blocks removed there still count as resident.');
    expect(of({ unseen: 12 }).reasons[0]?.text).toContain('12 batches before are unknown, so hits are underestimated');
  });

  it('stays between 0 and 1, and never grows by another loss', () => {
    const count = fc.nat(10_000);
    const facts = fc.record({
      state: fc.constantFrom('connecting' as const, 'live' as const, 'silent' as const, 'lost' as const, 'failed' as const), applied: count, unseen: count,
      isKnownEmpty: fc.boolean(), lost: count, waiting: count, badMessages: count, events: count, badEvents: count, unknownEvents: count, removedBlocks: count,
      unknownRemovals: count, isLifeUncertain: fc.boolean(), strays: count, isReplaying: fc.boolean(), lagMs: fc.option(fc.double({ noNaN: true }), { nil: undefined }), hasSeveralPublishers: fc.boolean(),
      hasOtherRank: fc.boolean(), isRankTold: fc.boolean(), untold: fc.option(fc.record({ requests: fc.integer({ min: 1, max: 1000 }), blocks: fc.integer({ min: 1, max: 1e6 }) }), { nil: undefined }), residentBlocks: count, untrackedBlocks: count, displacedBlocks: count,
    });
    fc.assert(fc.property(facts, (some) => {
      const { confidence, reasons } = streamConfidence(some);
      expect(confidence).toBeGreaterThanOrEqual(0);
      expect(confidence).toBeLessThanOrEqual(1);
      expect(reasons.every(({ weight, text }) => weight > 0 && weight <= 1 && text.endsWith('.'))).toBe(true);
      expect(reasons.length === 0).toBe(confidence === 1);
      // Unknown removals are explained by the first loss, so only streams without any are compared.
      const without = { ...some, unknownRemovals: 0 };
      expect(streamConfidence({ ...without, lost: some.lost + 1 }).confidence).toBeLessThanOrEqual(streamConfidence(without).confidence);
    }));
  });
});
