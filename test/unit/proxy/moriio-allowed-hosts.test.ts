import { expect, test } from 'vitest';
import { AllowedHosts } from '#engine/proxy/connectors/moriio/allowed-hosts.ts';

test('an empty list lets everybody in', () => {
  expect(new AllowedHosts([]).has('203.0.113.9')).toBe(true);
});

const list = new AllowedHosts(['10.0.0.0/24', '10.1.2.3', 'fd00:1::/64', 'GPU7', 'node-1.lab.example']);

test.each([
  ['10.0.0.1', true],
  ['10.0.0.255', true],
  ['10.0.1.0', false],
  ['10.1.2.3', true],
  ['10.1.2.4', false],
  ['fd00:1::5', true],
  ['fd00:2::5', false],
  ['::ffff:10.0.0.1', true],
  ['gpu7', true],
  ['GPU7', true],
  ['gpu8', false],
  ['node-1.lab.example', true],
  ['node-1.lab.example.evil.example', false],
  // A name is not looked up, so it is not in a network.
  ['localhost', false],
])('%s: %s', (host, isAllowed) => {
  expect(list.has(host)).toBe(isAllowed);
});

test.each(['', '10.0.0.0/33', 'fd00::/129', '10.0.0', '10.0.0.0/', '10.0.0.0/8/8', 'gpu7/24', 'http://10.0.0.1', '10.0.0.1:8100', 'a b'])('%j is refused with what to write', (entry) => {
  expect(() => new AllowedHosts([entry])).toThrowError(/--moriio-allow: .* write 10\.0\.0\.7/u);
});
