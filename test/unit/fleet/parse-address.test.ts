import { describe, expect, it } from 'vitest';
import { parseAddress } from '#engine/fleet/parse-address.ts';
import { PdscopeError } from '#shared/errors.ts';

function codeOf(text: string): string {
  try {
    parseAddress(text);
  } catch (error) {
    if (error instanceof PdscopeError) return error.code;
    throw error;
  }
  return 'accepted';
}

describe('parseAddress', () => {
  it.each([
    ['10.0.0.1:8100', 'http://10.0.0.1:8100', '10.0.0.1', 8100],
    ['  http://10.0.0.1:8100/ ', 'http://10.0.0.1:8100', '10.0.0.1', 8100],
    ['HTTP://GPU-Node.Example.com:8100', 'http://gpu-node.example.com:8100', 'gpu-node.example.com', 8100],
    ['prefill_0:8000', 'http://prefill_0:8000', 'prefill_0', 8000],
    ['localhost:1', 'http://localhost:1', 'localhost', 1],
    ['localhost:65535', 'http://localhost:65535', 'localhost', 65535],
    ['[::1]:8100', 'http://[::1]:8100', '::1', 8100],
    ['http://[FD00:0:0::1]:8100', 'http://[fd00::1]:8100', 'fd00::1', 8100],
    ['http://host:80', 'http://host', 'host', 80],
    ['https://host:443', 'https://host', 'host', 443],
    ['https://engine.example.com', 'https://engine.example.com', 'engine.example.com', 443],
    ['https://host:8443', 'https://host:8443', 'host', 8443],
  ])('accepts %j', (text, origin, host, port) => {
    expect(parseAddress(text)).toEqual({ origin, host, port, isTls: origin.startsWith('https') });
  });

  it.each([
    ['', 'address_empty'],
    [' \t ', 'address_empty'],
    ['a b:80', 'address_whitespace'],
    ['host:80\nhost:81', 'address_whitespace'],
    ['ftp://host:21', 'address_scheme'],
    ['tcp://host:5557', 'address_scheme'],
    ['file:///etc/passwd', 'address_scheme'],
    ['host', 'address_no_port'],
    ['10.0.0.1', 'address_no_port'],
    ['http://10.0.0.1', 'address_no_port'],
    ['host:', 'address_no_port'],
    ['[::1]', 'address_no_port'],
    ['host:70000', 'address_port'],
    ['host:0', 'address_port'],
    ['host:65536', 'address_port'],
    ['host:80a', 'address_port'],
    ['host:-1', 'address_port'],
    ['host:9999999', 'address_port'],
    ['host:8000/v1', 'address_path'],
    ['http://host:8000/v1/models', 'address_path'],
    ['http://host:8000?a=1', 'address_path'],
    ['http://host:8000#x', 'address_path'],
    ['http://user:pw@host:8000', 'address_credentials'],
    ['key@host:8000', 'address_credentials'],
    ['::1:8100', 'address_ipv6'],
    ['fd00::1', 'address_ipv6'],
    ['[fd00::1', 'address_ipv6'],
    ['[fd00::zz]:80', 'address_ipv6'],
    ['[fe80::1%eth0]:80', 'address_ipv6'],
    ['[::1]8100', 'address_ipv6'],
    [':8100', 'address_host'],
    ['http://:8100', 'address_host'],
    ['8100', 'address_host'],
    ['10.0.0.256:80', 'address_host'],
    ['10.0.0:80', 'address_host'],
    ['-host:80', 'address_host'],
    ['ho*st:80', 'address_host'],
    ['a..b:80', 'address_host'],
    [`${'a'.repeat(64)}:80`, 'address_host'],
  ])('refuses %j with %s', (text, code) => {
    expect(codeOf(text)).toBe(code);
  });

  it('says what to write instead', () => {
    expect(() => parseAddress('gpu1')).toThrow('"gpu1" has no port: write gpu1:8000');
    expect(() => parseAddress('gpu1:70000')).toThrow('Port 70000 is out of range: a port is a number from 1 to 65535.');
    expect(() => parseAddress('ftp://gpu1:21')).toThrow('ftp://');
    expect(() => parseAddress('http://gpu1:8000/v1')).toThrow('for example gpu1:8000');
    expect(() => parseAddress('http://user:secret@gpu1:1')).not.toThrow('secret');
  });
});
