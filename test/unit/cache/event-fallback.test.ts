import { expect, it } from 'vitest';
import { EventFallback } from '#engine/cache/event-fallback.ts';
import { RecentStores } from '#engine/cache/recent-stores.ts';
import { ReuseAnnouncers } from '#engine/cache/reuse-announcers.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import type { LegRecord } from '#engine/telemetry/request-record.ts';

/** A leg on p0, by the clock of records; without `endMs` it runs. */
function leg(sentMs: number, endMs?: number): LegRecord {
  return { kind: 'decode', instance: { id: 'p0' }, rank: undefined, record: { receivedMs: 0 }, sentMs, endMs, outcome: endMs === undefined ? 'running' : 'ok' } as unknown as LegRecord;
}

function setUp(): EventFallback {
  return new EventFallback({ index: new KvIndex(), stores: new RecentStores({}), fleet: { get: () => undefined }, announcers: new ReuseAnnouncers() });
}

it('takes others to have run where a forgotten leg may have: one that ended after this was sent, however early it was sent', () => {
  const fallback = setUp();
  fallback.seen(leg(0, 960));
  for (let sent = 1; sent <= 600; sent += 1) fallback.seen(leg(sent, sent));
  expect(fallback.meanwhile(leg(950), 950).others).toEqual([undefined]);
  expect(fallback.meanwhile(leg(970), 970).others).toEqual([]);
});

it('remembers legs that run, and after it was cleared that legs are forgotten', () => {
  const fallback = setUp();
  const long = leg(0);
  fallback.seen(long);
  for (let sent = 1; sent <= 600; sent += 1) fallback.seen(leg(sent, sent));
  expect(fallback.meanwhile(leg(950), 950).others).toEqual([long]);
  fallback.seen(leg(900, 980));
  fallback.clear();
  expect(fallback.meanwhile(leg(970), 970).others).toEqual([long, undefined]);
});
