import { describe, expect, it } from 'vitest';
import { formatZmqAddress, parseZmqAddress, peerInParams, peerInRequestId } from '#engine/simulator/transfer/moriio-address.ts';

const HEX = 'a'.repeat(32);
const P = { host: '10.1.2.3', handshakePort: 6301, notifyPort: 61005 };
const D = { host: 'fe80::1', handshakePort: 6401, notifyPort: 61006 };
const ID = `___prefill_addr_${formatZmqAddress(P)}___decode_addr_${formatZmqAddress(D)}_${HEX}`;

describe('MoRIIO addresses', () => {
  it('survive their text form, IPv6 too', () => {
    for (const address of [P, D]) expect(parseZmqAddress(formatZmqAddress(address))).toEqual(address);
    expect(formatZmqAddress(P)).toBe('host:10.1.2.3,handshake:6301,notify:61005');
  });

  it.each(['', 'host:a', 'host:a,handshake:x,notify:1', '10.0.1.2:21001'])('%j is none', (text) => {
    expect(parseZmqAddress(text)).toBeUndefined();
  });

  it.each([ID, `cmpl-${ID}-0-0123abcd`, `chatcmpl-${ID}-0123abcd`, `0_cmpl-${ID}-0-0123abcd`])('are found in %s', (id) => {
    expect([peerInRequestId(id, 'prefill'), peerInRequestId(id, 'decode')]).toEqual([P, D]);
  });

  it.each(['cmpl-x', ID.slice(0, -1), `${ID}f`, `___prefill_addr_10.0.1.2:1___decode_addr_10.0.1.4:2_${HEX}`])('are not found in %s', (id) => {
    expect(peerInRequestId(id, 'decode')).toBeUndefined();
  });

  it('are read from parameters, ports as text too, all three or none', () => {
    const params = { remote_host: 'h', remote_handshake_port: '6301', remote_notify_port: 61005 };
    expect(peerInParams(params)).toEqual({ host: 'h', handshakePort: 6301, notifyPort: 61005 });
    for (const key of Object.keys(params)) expect(peerInParams({ ...params, [key]: null })).toBeUndefined();
  });
});
