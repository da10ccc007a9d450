import { describe, expect, it } from 'vitest';
import { toldStores, type Told } from '#engine/cache/told-stores.ts';
import type { StoredSpan } from '#engine/cache/recent-stores.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import type { LegUsage } from '#shared/request.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import type { LegRecord } from '#engine/telemetry/request-record.ts';
import { identity, stored } from '../kv-index/events.ts';

/** Blocks are of two tokens. Records begin at 0 of their clock, which is 10,000 of ours. */
const ORIGIN = 10_000;

function leg(sentMs: number, firstByteMs: number | undefined, usage?: LegUsage, part: { readonly id?: string; readonly outcome?: 'error' } = {}): LegRecord {
  const { id = 'p0', outcome = 'ok' } = part;
  return { kind: 'prefill', status: 200, instance: { id }, rank: undefined, record: { receivedMs: 0 }, sentMs, firstByteMs, usage, outcome } as unknown as LegRecord;
}

const usage = (promptTokens: number, cachedTokens?: number): LegUsage => ({ promptTokens, ...(cachedTokens !== undefined && { cachedTokens }) });

interface Case {
  readonly of: LegRecord;
  readonly beside?: readonly LegRecord[];
  /** Events told: when, by our clock, and how many blocks. */
  readonly told?: readonly (readonly [number, number])[];
  readonly heardUntil?: number;
  readonly isWhole?: boolean;
  readonly inFlight?: number;
  readonly isReadFromEvents?: boolean;
}

function ask({ of, beside = [], told = [], heardUntil = Number.NEGATIVE_INFINITY, isWhole = true, inFlight = 0, isReadFromEvents = false }: Case): Told {
  const index = new KvIndex({ capacity: 100 });
  index.open(identity('p0')).apply(stored([1]), { atUnixMs: 1 });
  const between = (_: unknown, from: number): StoredSpan => ({
    isWhole, stores: told.filter(([at]) => at >= from).map(([, blocks]) => ({ parent: undefined, last: [0, 1] as const, blocks, sessionId: undefined })),
  });
  return toldStores(of, ORIGIN + of.sentMs, { index, stores: { between, heardUntil: () => heardUntil }, fleet: { get: () => ({ inFlight }) as Instance }, legs: () => [...beside, of], isReadFromEvents });
}

describe('toldStores', () => {
  it('awaits as many blocks as usage says were computed', () => {
    const of = leg(100, 200, usage(11, 4));
    expect(ask({ of })).toBe('awaited');
    expect(ask({ of, told: [[ORIGIN + 150, 2]] })).toBe('awaited');
    expect(ask({ of, told: [[ORIGIN + 150, 2], [ORIGIN + 900, 1]] })).toBe('told');
    // Of before it was sent.
    expect(ask({ of, told: [[ORIGIN + 50, 3]] })).toBe('awaited');
  });

  it('awaits nothing of a prompt that stored nothing', () => {
    expect(ask({ of: leg(100, 200, usage(11, 10)) })).toBe('told');
  });

  it('takes what one of two stored at the same time for no more than that', () => {
    const of = leg(100, 200, usage(11, 0));
    const beside = [leg(90, 190, usage(21, 0))];
    expect(ask({ of, beside, told: [[ORIGIN + 150, 10]] })).toBe('awaited');
    expect(ask({ of, beside, told: [[ORIGIN + 95, 10], [ORIGIN + 160, 5]] })).toBe('told');
  });

  it('does not await what others stored that answered long before, nor on other instances, nor where they failed', () => {
    const of = leg(5000, 5100, usage(11, 0));
    const told = [[ORIGIN + 5050, 5]] as const;
    expect(ask({ of, told, beside: [leg(100, 3900, usage(21, 0))] })).toBe('told');
    expect(ask({ of, told, beside: [leg(100, 4100, usage(21, 0))] })).toBe('awaited');
    expect(ask({ of, told, beside: [leg(100, 4900, usage(21, 0), { id: 'p1' })] })).toBe('told');
    expect(ask({ of, told, beside: [leg(100, 4900, usage(21, 0), { outcome: 'error' })] })).toBe('told');
  });

  it('knows that a stream told it all when it heard of what came after the answer, by more than clocks may differ', () => {
    const of = leg(100, 200, usage(11, 0));
    expect(ask({ of, heardUntil: ORIGIN + 450 })).toBe('awaited');
    expect(ask({ of, heardUntil: ORIGIN + 451 })).toBe('told');
  });

  it('takes nothing for its own while another request has not answered, which may have stored it', () => {
    const one: Case = { of: leg(100, 200, usage(11, 0)), told: [[ORIGIN + 150, 5]], inFlight: 1 };
    expect(ask(one)).toBe('told');
    expect(ask({ ...one, isReadFromEvents: true })).toBe('awaited');
    expect(ask({ ...one, isReadFromEvents: true, heardUntil: ORIGIN + 451 })).toBe('told');
    expect(ask({ ...one, isReadFromEvents: true, inFlight: 0 })).toBe('told');
  });

  it('leaves it open where usage does not say how much, until something came', () => {
    for (const known of [undefined, usage(11)]) {
      expect(ask({ of: leg(100, 200, known) })).toBe('open');
      expect(ask({ of: leg(100, 200, known), told: [[ORIGIN + 150, 1]] })).toBe('told');
    }
  });

  it('awaits nothing where there is no stream, nor where more was told than is remembered', () => {
    expect(ask({ of: leg(100, 200, usage(11, 0), { id: 'p9' }) })).toBe('told');
    expect(ask({ of: leg(100, 200, usage(11, 0)), isWhole: false })).toBe('told');
  });
});
