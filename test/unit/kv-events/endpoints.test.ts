import { describe, expect, it } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import { checkRankEndpoints, isIpv6Endpoint, rankEndpoint } from '#engine/kv-events/endpoints.ts';
import { RateWindow } from '#engine/kv-events/rate-window.ts';

describe('rankEndpoint', () => {
  it.each([
    ['tcp://10.0.0.1:5557', 0, 'tcp://10.0.0.1:5557'],
    ['tcp://10.0.0.1:5557', 3, 'tcp://10.0.0.1:5560'],
    ['tcp://node-1.local:5557', 1, 'tcp://node-1.local:5558'],
    ['tcp://[fe80::1]:5557', 1, 'tcp://[fe80::1]:5558'],
    ['ipc:///tmp/kv.sock', 0, 'ipc:///tmp/kv.sock'],
  ])('%s rank %d', (endpoint, rank, expected) => {
    expect(rankEndpoint(endpoint, rank, 'connect')).toBe(expected);
  });

  it('lets a bound socket take every interface', () => {
    expect(rankEndpoint('tcp://*:5557', 1, 'bind')).toBe('tcp://*:5558');
  });

  it.each([
    ['tcp://10.0.0.1', 0, /a port is missing/],
    ['tcp://10.0.0.1:0', 0, /would need port 0/],
    ['tcp://10.0.0.1:70000', 0, /would need port 70000/],
    ['tcp://10.0.0.1:65535', 1, /rank 1 would need port 65536/],
    ['tcp://::1:5557', 0, /in brackets/],
    ['tcp://*:5557', 0, /connect to its host name/],
    ['ipc:///tmp/kv.sock', 1, /one rank only/],
    ['http://10.0.0.1:5557', 0, /must start with/],
    ['inproc://kv', 0, /must start with tcp/],
  ])('refuses %s rank %d', (endpoint, rank, message) => {
    expect(() => rankEndpoint(endpoint, rank, 'connect')).toThrow(PdscopeError);
    expect(() => rankEndpoint(endpoint, rank, 'connect')).toThrow(message);
  });

  it('knows literal IPv6 addresses', () => {
    expect([isIpv6Endpoint('tcp://[::1]:1'), isIpv6Endpoint('tcp://localhost:1')]).toEqual([true, false]);
  });
});

describe('checkRankEndpoints', () => {
  const check = (endpoint: string, replayEndpoint: string, ranks = 1, mode: 'connect' | 'bind' = 'connect') => () => checkRankEndpoints({ endpoint, replayEndpoint, ranks, mode });

  it.each([
    ['the ports of the ranks', check('tcp://h:65535', 'tcp://h:1', 2), /rank 1 would need port 65536/],
    ['where replays are asked for', check('tcp://h:5557', 'tcp://*:5558'), /tcp:\/\/\*:5558: "\*" is where the engine binds/],
    ['one socket for both', check('tcp://h:5557', 'tcp://h:5557'), /with its replay sockets at tcp:\/\/h:5557, tcp:\/\/h:5557 would be both/],
    ['ports that ranks share', check('tcp://h:5557', 'tcp://h:5558', 2), /with the 2 ranks' replay sockets at tcp:\/\/h:5558, tcp:\/\/h:5558 would be both/],
  ])('refuses %s', (_, attempt, message) => {
    expect(attempt).toThrow(message);
  });

  it('takes sockets that are apart, of other hosts, and bound here', () => {
    expect(check('tcp://h:5557', 'tcp://h:5559', 2)).not.toThrow();
    expect(check('tcp://h:5557', 'tcp://other:5557')).not.toThrow();
    expect(check('tcp://*:5557', 'tcp://h:5557', 2, 'bind')).not.toThrow();
  });
});

describe('RateWindow', () => {
  it('averages over the last seconds and forgets older ones', () => {
    const rate = new RateWindow(0);
    expect(rate.perSecond(500)).toBe(0);
    rate.add(10, 1000);
    expect(rate.perSecond(1500)).toBe(10);
    rate.add(10, 2000);
    expect(rate.perSecond(3000)).toBe(10);
    expect(rate.perSecond(5999)).toBeCloseTo(4, 1);
    expect(rate.perSecond(6500)).toBeCloseTo(10 / 4.5);
    expect(rate.perSecond(60_000)).toBe(0);
    rate.add(5, 61_000);
    expect(rate.perSecond(61_500)).toBeCloseTo(5 / 4.5);
  });

  it('keeps two minutes in whole steps, none from before it watched', () => {
    const rate = new RateWindow(2500);
    rate.add(7, 2600);
    rate.add(6, 4000);
    rate.add(2, 5999);
    expect(rate.history(5999)).toEqual([]);
    expect(rate.history(6000)).toEqual([4]);
    rate.add(10, 9000);
    expect(rate.history(11_999)).toEqual([4, 0, 5]);
    expect(rate.history(12_000)).toEqual([4, 0, 5, 0]);
    expect(rate.history(125_999)).toEqual([4, 0, 5, ...Array.from({ length: 57 }, () => 0)]);
    expect(rate.history(126_000)).toEqual([0, 5, ...Array.from({ length: 58 }, () => 0)]);
    expect(rate.history(1e9)).toEqual(Array.from({ length: 60 }, () => 0));
  });

  it('tells no rate of steps in which nothing could come, be it for a moment', () => {
    const rate = new RateWindow(0);
    rate.pause(0);
    expect(rate.history(4000)).toEqual([undefined, undefined]);
    rate.resume(5000);
    rate.add(8, 6500);
    expect(rate.history(10_000)).toEqual([undefined, undefined, undefined, 4, 0]);
    rate.pause(10_100);
    rate.resume(10_200);
    expect(rate.history(14_000)).toEqual([undefined, undefined, undefined, 4, 0, undefined, 0]);
    expect(rate.history(400_000)).toEqual(Array.from({ length: 60 }, () => 0));
    rate.pause(400_000);
    expect(rate.history(900_000)).toEqual(Array.from({ length: 60 }, () => undefined));
    expect(rate.perSecond(900_000)).toBe(0);
  });
});
