/** Registrations against the clock: liveness, transfer mode, and who joins or leaves the fleet. */
import type { Verdict } from '#shared/findings.ts';
import { beforeEach, describe, expect, test } from 'vitest';
import { silentLogger } from '#engine/log.ts';
import type { MoriioRegistration } from '#engine/proxy/connectors/moriio/message.ts';
import { MAX_ENTRIES, missedPings, Registry } from '#engine/proxy/connectors/moriio/registry.ts';
import { BookScheduler } from '../../integration/proxy/harness.ts';

const PING_MS = 3000;

let fleet: BookScheduler;
let findings: Verdict[];
let registry: Registry;
let nowMs: number;

function startRegistry(mode?: 'READ' | 'WRITE'): Registry {
  return new Registry({ fleet, logger: silentLogger, mode, pingMs: PING_MS, report: (verdict) => findings.push(verdict) });
}

beforeEach(() => {
  fleet = new BookScheduler();
  findings = [];
  registry = startRegistry();
  nowMs = 1_000_000;
});

function registration(port: number, change: Partial<MoriioRegistration> = {}): MoriioRegistration {
  return {
    schema: 'v2',
    role: 'prefill',
    origin: `http://10.0.0.1:${port}`,
    httpPort: port,
    zmqAddress: 'host:10.0.0.1,handshake:6301,notify:61005',
    host: '10.0.0.1',
    handshakePort: 6301,
    notifyPort: 61_005,
    dpSize: 1,
    tpSize: 1,
    mode: 'WRITE',
    ...change,
  };
}

/** Pings, every three seconds, so many times. */
function ping(count: number, ...registrations: readonly MoriioRegistration[]): void {
  for (let turn = 0; turn < count; turn++) {
    for (const one of registrations) registry.heard(one, nowMs);
    nowMs += PING_MS;
    registry.check(nowMs);
  }
}

/** Silence of so many intervals. */
function wait(intervals: number): void {
  for (let turn = 0; turn < intervals; turn++) {
    nowMs += PING_MS;
    registry.check(nowMs);
  }
}

function only<T>(items: readonly T[]): T {
  const [item] = items;
  if (item === undefined || items.length !== 1) throw new Error(`${items.length} items instead of one`);
  return item;
}

describe('joining', () => {
  test('the first message joins the fleet, the following ones are pings', () => {
    ping(3, registration(8100, { dpSize: 4 }), registration(8200, { role: 'decode' }));
    expect(fleet.instances.map(({ name, role, origin, registeredBy, dpSize, dpSizeSource }) => ({ name, role, origin, registeredBy, dpSize, dpSizeSource }))).toEqual([
      { name: 'P0', role: 'prefill', origin: 'http://10.0.0.1:8100', registeredBy: 'moriio', dpSize: 4, dpSizeSource: 'registration' },
      { name: 'D0', role: 'decode', origin: 'http://10.0.0.1:8200', registeredBy: 'moriio', dpSize: 1, dpSizeSource: 'registration' },
    ]);
    expect(registry.entries.map(({ pings }) => pings)).toEqual([3, 3]);
    expect(findings).toEqual([]);
  });

  test('an instance configured by hand is matched by origin and role; what the person gave is kept', () => {
    const byHand = fleet.add('both', 'http://10.0.0.1:8100', { dpSize: 2, dpSizeSource: 'given', rankInFlight: [0, 0] });
    expect(registry.refusal(byHand, 'prefill')).toBe('no MoRIIO registration');
    ping(1, registration(8100, { dpSize: 8 }));
    expect(only(fleet.instances)).toBe(byHand);
    expect(byHand.dpSize).toBe(2);
    expect([registry.refusal(byHand, 'prefill'), registry.refusal(byHand, 'decode')]).toEqual([undefined, 'registered as a prefill instance']);
  });

  test('configured in the other role: the engine is believed, and joins beside', () => {
    const byHand = fleet.add('decode', 'http://10.0.0.1:8100');
    ping(1, registration(8100));
    expect(fleet.instances.map(({ role }) => role)).toEqual(['decode', 'prefill']);
    expect(registry.refusal(byHand, 'decode')).toBe('registered as a prefill instance');
  });

  test('what the fleet does not take is tried again with each ping and reported once', () => {
    let isTaken = true;
    const join = fleet.join.bind(fleet);
    fleet.join = (spec, by) => {
      if (isTaken) throw new Error('the name is taken');
      return join(spec, by);
    };
    ping(3, registration(8100));
    expect(findings.map(({ code, message }) => [code, message])).toEqual([['moriio_not_joined', 'http://10.0.0.1:8100 registers as a prefill instance, but cannot join: the name is taken']]);
    isTaken = false;
    ping(1, registration(8100));
    expect(only(registry.entries)).toMatchObject({ problem: undefined, instance: only(fleet.instances) });
  });

  test('more than the limit are counted and not kept', () => {
    for (let index = 0; index < MAX_ENTRIES + 3; index++) registry.heard(registration(1000 + index), nowMs);
    expect([registry.entries.length, registry.overflowCount]).toEqual([MAX_ENTRIES, 3]);
    expect(only(findings).code).toBe('moriio_too_many_registrations');
  });
});

describe('updates', () => {
  test('another transfer address and other sizes replace the last, in the same instance', () => {
    ping(2, registration(8100));
    const instance = only(fleet.instances);
    ping(1, registration(8100, { zmqAddress: 'host:10.0.0.9,handshake:7301,notify:7005', host: '10.0.0.9', dpSize: 2, tpSize: 4 }));
    expect(only(fleet.instances)).toBe(instance);
    expect(registry.of(instance)).toMatchObject({ zmqAddress: 'host:10.0.0.9,handshake:7301,notify:7005', tpSize: 4 });
    expect([instance.dpSize, instance.rankInFlight]).toEqual([2, [0, 0]]);
    // A restarted engine: its other facts are asked for again.
    expect(fleet.rechecked).toEqual([instance.id]);
  });

  test('an engine that comes back in the other role is another instance', () => {
    ping(2, registration(8100));
    ping(1, registration(8100, { role: 'decode' }));
    expect(fleet.left).toEqual([{ name: 'P0', reason: 'its engine registers as decode now' }]);
    expect(only(fleet.instances)).toMatchObject({ role: 'decode', registeredBy: 'moriio' });
    expect(registry.refusal(only(fleet.instances), 'decode')).toBeUndefined();
  });
});

describe('silence', () => {
  test('three missed pings ask for the health once; a healthy one stays', () => {
    ping(3, registration(8100));
    const instance = only(fleet.instances);
    wait(1);
    expect(fleet.rechecked).toEqual([]);
    wait(4);
    expect(fleet.rechecked).toEqual([instance.id]);
    expect(fleet.left).toEqual([]);
    expect(missedPings(only(registry.entries), nowMs)).toBe(6);
    expect(registry.refusal(instance, 'prefill')).toBeUndefined();
    ping(1, registration(8100));
    wait(3);
    expect(fleet.rechecked).toEqual([instance.id, instance.id]);
  });

  test('silent and down: it leaves, with the reason, and joins again with its next registration', () => {
    ping(3, registration(8100));
    const instance = only(fleet.instances);
    instance.state = 'down';
    instance.stateReason = 'connection refused';
    wait(1);
    expect(fleet.left).toEqual([]);
    wait(1);
    expect(fleet.left).toEqual([{ name: 'P0', reason: 'no MoRIIO registration for 9 s, and down: connection refused' }]);
    expect(findings.map(({ code, instance: about }) => [code, about])).toEqual([['moriio_instance_left', 'p0']]);
    expect([registry.entries, registry.leftCount, registry.mode]).toEqual([[], 1, undefined]);
    ping(1, registration(8100));
    expect(only(fleet.instances)).not.toBe(instance);
  });

  test('down but registering: it stays', () => {
    ping(1, registration(8100));
    only(fleet.instances).state = 'down';
    ping(5, registration(8100));
    expect(fleet.left).toEqual([]);
  });

  test('an instance configured by hand stays in the fleet; only its registration is forgotten', () => {
    const byHand = fleet.add('prefill', 'http://10.0.0.1:8100', { state: 'down' });
    ping(1, registration(8100));
    wait(4);
    expect([fleet.left, fleet.instances]).toEqual([[], [byHand]]);
    expect(registry.refusal(byHand, 'prefill')).toBe('no MoRIIO registration');
  });

  test('the interval is learned', () => {
    for (let turn = 0; turn < 40; turn++) {
      registry.heard(registration(8100), nowMs);
      nowMs += 10_000;
      registry.check(nowMs);
    }
    expect(only(registry.entries).intervalMs).toBeGreaterThan(9900);
    fleet.rechecked.length = 0;
    registry.check(nowMs + 15_000);
    expect(fleet.rechecked).toEqual([]);
    registry.check(nowMs + 25_000);
    expect(fleet.rechecked.length).toBe(1);
  });

  test('doubled messages do not make it impatient', () => {
    for (let message = 0; message < 200; message++) registry.heard(registration(8100), nowMs);
    expect(only(registry.entries).intervalMs).toBeGreaterThanOrEqual(PING_MS / 4);
  });

  test('time while nobody listened does not count', () => {
    ping(1, registration(8100));
    only(fleet.instances).state = 'down';
    nowMs += 3_600_000;
    registry.resume(nowMs);
    wait(1);
    expect(fleet.left).toEqual([]);
  });
});

describe('removed by a person', () => {
  test('it stays out while its engine registers, until it is added by hand', () => {
    ping(1, registration(8100));
    fleet.leave(only(fleet.instances).id, 'by hand');
    ping(2, registration(8100));
    expect(fleet.instances).toEqual([]);
    expect(only(registry.entries).isSetAside).toBe(true);
    const again = fleet.join({ role: 'prefill', url: 'http://10.0.0.1:8100' }, 'moriio');
    expect(only(registry.entries)).toMatchObject({ isSetAside: false, instance: again });
  });

  test('it is forgotten when its engine is gone, and a new one may join', () => {
    ping(1, registration(8100));
    fleet.leave(only(fleet.instances).id, 'by hand');
    wait(3);
    expect(registry.entries).toEqual([]);
    ping(1, registration(8100));
    expect(fleet.instances.length).toBe(1);
  });
});

test('removed while another protocol is in force: forgotten, and it may join again', () => {
  ping(1, registration(8100));
  registry.pause();
  fleet.leave(only(fleet.instances).id, 'by hand');
  registry.resume(nowMs);
  expect([registry.entries, registry.mode]).toEqual([[], undefined]);
  ping(1, registration(8100));
  expect(fleet.instances.length).toBe(1);
});

describe('transfer mode', () => {
  test('that of the first is in force; others are refused and reported once', () => {
    ping(3, registration(8100, { mode: 'READ' }), registration(8200, { role: 'decode', mode: 'WRITE' }));
    const [prefill, decode] = fleet.instances;
    if (prefill === undefined || decode === undefined) throw new Error('not both joined');
    expect(registry.mode).toBe('READ');
    expect(registry.refusal(prefill, 'prefill')).toBeUndefined();
    expect(registry.refusal(decode, 'decode')).toBe('transfer mode WRITE, but READ is in force');
    expect(findings.map(({ code, severity, instance }) => [code, severity, instance])).toEqual([['transfer_mode_mismatch', 'error', 'd0']]);
  });

  test('when all that had it left, the next one decides', () => {
    ping(1, registration(8100, { mode: 'READ' }), registration(8200, { role: 'decode', mode: 'WRITE' }));
    const [prefill, decode] = fleet.instances;
    if (prefill === undefined || decode === undefined) throw new Error('not both joined');
    prefill.state = 'down';
    ping(4, registration(8200, { role: 'decode', mode: 'WRITE' }));
    expect([registry.mode, registry.refusal(decode, 'decode')]).toEqual(['WRITE', undefined]);
  });

  test('when all engines come back in another mode, it follows', () => {
    ping(1, registration(8100), registration(8200, { role: 'decode' }));
    ping(1, registration(8100, { mode: 'READ' }));
    expect(registry.mode).toBe('WRITE');
    ping(1, registration(8200, { role: 'decode', mode: 'READ' }));
    expect(registry.mode).toBe('READ');
    expect(fleet.instances.map((instance) => registry.refusal(instance, instance.role as 'prefill' | 'decode'))).toEqual([undefined, undefined]);
  });

  test('a configured one does not follow', () => {
    registry = startRegistry('READ');
    ping(1, registration(8100));
    expect([registry.mode, only(findings).code]).toEqual(['READ', 'transfer_mode_mismatch']);
  });
});

test('whole requests of other routes never go to a decode instance, which cannot compute a prompt', () => {
  ping(1, registration(8100), registration(8200, { role: 'decode' }));
  expect(fleet.instances.map((instance) => registry.refusal(instance, 'forward'))).toEqual([undefined, 'a MoRIIO decode instance cannot compute a prompt']);
  expect(fleet.instances.map((instance) => registry.refusal(instance, 'render'))).toEqual([undefined, undefined]);
});
