import { expect, test } from 'vitest';
import type { Instance } from '#engine/fleet/instance.ts';
import { correctRemoteHost } from '#engine/proxy/connectors/remote-host.ts';

const at = (origin: string): Instance => ({ origin }) as Instance;
const params = (host: string): Buffer => Buffer.from(`{"a": 1.0,"remote_host": ${host},"remote_block_ids":[[12345678901234567890]],"remote_port":5600}`);

test.each([
  ['localhost', 'http://10.0.0.5:8100', '10.0.0.5'],
  ['LOCALHOST', 'http://10.0.0.5:8100', '10.0.0.5'],
  ['127.0.0.1', 'http://10.0.0.5:8100', '10.0.0.5'],
  ['127.1.2.3', 'https://p0.example', 'p0.example'],
  ['::1', 'http://10.0.0.5:8100', '10.0.0.5'],
  ['[::1]', 'http://10.0.0.5:8100', '10.0.0.5'],
  ['::ffff:127.0.0.1', 'http://10.0.0.5:8100', '10.0.0.5'],
  ['0.0.0.0', 'http://10.0.0.5:8100', '10.0.0.5'],
  ['::', 'http://[fd00::1]:8100', 'fd00::1'],
  ['', 'http://10.0.0.5:8100', '10.0.0.5'],
  ['0.0.0.0', 'http://127.0.0.1:8100', '127.0.0.1'],
])('%j of the instance at %s becomes %s; nothing else changes', (reported, origin, host) => {
  const text = params(JSON.stringify(reported));
  const corrected = correctRemoteHost(text, at(origin));
  expect(corrected).toMatchObject({ reported, host });
  expect(corrected?.params.toString()).toBe(text.toString().replace(JSON.stringify(reported), JSON.stringify(host)));
});

test.each([
  ['"10.9.9.9"', 'http://10.0.0.5:8100'],
  ['"node-7.rdma"', 'http://10.0.0.5:8100'],
  ['"fd00::9"', 'http://10.0.0.5:8100'],
  ['"1270.0.0.1"', 'http://10.0.0.5:8100'],
  ['"localhost"', 'http://127.0.0.1:8100'],
  ['"127.0.0.1"', 'http://localhost:8100'],
  ['"::1"', 'http://[::1]:8100'],
  ['"0.0.0.0"', 'http://0.0.0.0:8100'],
  ['null', 'http://10.0.0.5:8100'],
  ['7', 'http://10.0.0.5:8100'],
])('%s of the instance at %s stays', (value, origin) => {
  expect(correctRemoteHost(params(value), at(origin))).toBeUndefined();
});

test('a key of the same name deeper inside is neither taken for it nor changed', () => {
  const corrected = correctRemoteHost(Buffer.from('{"remote_host":"localhost","peers":[{"remote_host":"10.0.0.9"},{"remote_host":"localhost"}]}'), at('http://10.0.0.5:1'));
  expect(corrected?.params.toString()).toBe('{"remote_host":"10.0.0.5","peers":[{"remote_host":"10.0.0.9"},{"remote_host":"localhost"}]}');
  expect(correctRemoteHost(Buffer.from('{"remote_host":"10.0.0.1","peers":[{"remote_host":"localhost"}]}'), at('http://10.0.0.5:1'))).toBeUndefined();
});

test('without the key, and on text that is no object, nothing happens', () => {
  expect(correctRemoteHost(Buffer.from('{"a":1}'), at('http://10.0.0.5:1'))).toBeUndefined();
  expect(correctRemoteHost(Buffer.from('{"remote_host":"localhost"'), at('http://10.0.0.5:1'))).toBeUndefined();
});
