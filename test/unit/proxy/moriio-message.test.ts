/** Registration messages: bytes of real vLLM engines of every generation, and garbage. */
import { readFileSync } from 'node:fs';
import { encode } from '@msgpack/msgpack';
import { assert as check, boolean, constant, constantFrom, dictionary, integer, nat, oneof, property, string, uint8Array } from '../../support/properties.ts';
import { describe, expect, test } from 'vitest';
import { MAX_PAYLOAD_BYTES, readMessage } from '#engine/proxy/connectors/moriio/message.ts';

interface Golden {
  readonly name: string;
  readonly schema: string;
  readonly payload_hex: string;
  readonly decoded: Readonly<Record<string, unknown>>;
}

const GOLDEN = JSON.parse(readFileSync(new URL('../../fixtures/golden/moriio.json', import.meta.url), 'utf8')) as readonly Golden[];

function golden(name: string): Golden {
  const found = GOLDEN.find((vector) => vector.name === name);
  if (found === undefined) throw new Error(`no golden vector ${name}`);
  return found;
}

function read(fields: Readonly<Record<string, unknown>>): ReturnType<typeof readMessage> {
  return readMessage(encode(fields));
}

const V2 = golden('head/prefill-read/ping-1').decoded;
const V1 = golden('v1-register/prefill-read/ping-1').decoded;

/** What a vector's map means, worked out apart from the code under test. */
function meaningOf({ schema, decoded }: Golden): ReturnType<typeof readMessage> {
  if (schema === 'any') return { kind: 'hello' };
  if (schema === 'p2p-nccl') return { kind: 'p2p-nccl', httpAddress: String(decoded['http_address']) };
  const isPrefill = (decoded['role'] ?? decoded['type']) === 'P';
  const host = isPrefill ? '10.1.2.3' : '10.1.2.4';
  const httpPort = isPrefill ? 8100 : 8200;
  return {
    kind: 'registration',
    registration: {
      schema: schema as 'v1' | 'v1b' | 'v2',
      role: isPrefill ? 'prefill' : 'decode',
      origin: `http://${host}:${httpPort}`,
      httpPort,
      zmqAddress: `host:${host},handshake:6301,notify:61005`,
      host,
      handshakePort: 6301,
      notifyPort: 61_005,
      dpSize: Number(decoded['dp_size']),
      tpSize: Number(decoded['tp_size']),
      mode: decoded['transfer_mode'] as 'READ' | 'WRITE',
    },
  };
}

test.each(GOLDEN.map((vector) => [vector.name, vector] as const))('golden %s', (_name, vector) => {
  expect(readMessage(Buffer.from(vector.payload_hex, 'hex'))).toEqual(meaningOf(vector));
});

describe('what engines may vary', () => {
  test('IPv6: parts of the zmq address split on their first colon, the http address without brackets', () => {
    const message = read({ ...V2, http_address: 'fd00::1:8100', zmq_address: 'host:fd00::1,handshake:6301,notify:61005' });
    expect(message).toMatchObject({ kind: 'registration', registration: { origin: 'http://[fd00::1]:8100', host: 'fd00::1', handshakePort: 6301, httpPort: 8100 } });
    expect(read({ ...V2, http_address: '[fd00::1]:8100' })).toMatchObject({ registration: { origin: 'http://[fd00::1]:8100' } });
    expect(read({ ...V1, request_address: 'http://[fd00::2]:8100/v1/completions' })).toMatchObject({
      registration: { origin: 'http://[fd00::2]:8100', host: 'fd00::2', zmqAddress: 'host:fd00::2,handshake:6301,notify:61005' },
    });
  });

  test('numbers as texts and as 64-bit integers, parts in another order', () => {
    const message = read({ ...V2, dp_size: '16', tp_size: '8', zmq_address: 'host:h,notify:2,handshake:1' });
    expect(message).toMatchObject({ registration: { dpSize: 16, tpSize: 8, handshakePort: 1, notifyPort: 2 } });
    expect(readMessage(encode({ ...V1, handshake_port: 6301n }, { useBigInt64: true }))).toMatchObject({ registration: { handshakePort: 6301 } });
  });

  test('unknown fields are ignored', () => {
    expect(read({ ...V2, pod: 'a', extra: [1, { b: 2 }] }).kind).toBe('registration');
  });
});

describe('malformed', () => {
  test.each([
    ['no map', [1, 2], 'not a msgpack map'],
    ['nil', null, 'not a msgpack map'],
    ['no type', { ...V2, type: undefined }, 'type is nil'],
    ['unknown type', { ...V2, type: 'X' }, 'type is "X", neither "register" nor "P" nor "D"'],
    ['no address', { type: 'P', zmq_address: 'host:a,handshake:1,notify:2' }, 'http_address is missing, not a text'],
    ['address with a path', { ...V2, http_address: '10.0.0.1:8100/v1' }, 'has a path'],
    ['port out of range', { ...V2, http_address: '10.0.0.1:81000' }, 'out of range'],
    ['zmq address without notify', { ...V2, zmq_address: 'host:a,handshake:1' }, 'notify is missing, not a whole number from 1 to 65535'],
    ['zmq address without host', { ...V2, zmq_address: 'host:,handshake:1,notify:2' }, 'names no host'],
    ['zmq address that would break the request id', { ...V2, zmq_address: 'host:a___decode_addr_b,handshake:1,notify:2' }, 'cannot travel in a request id'],
    ['zmq address with a line break', { ...V2, zmq_address: 'host:a\r\nx: y,handshake:1,notify:2' }, 'cannot travel in a request id'],
    ['no ranks', { ...V2, dp_size: 0 }, 'dp_size is 0, not a whole number from 1 to 1024'],
    ['fraction', { ...V2, tp_size: 1.5 }, 'tp_size is 1.5'],
    ['mode', { ...V2, transfer_mode: 'PUSH' }, 'transfer_mode is "PUSH", neither READ nor WRITE'],
    ['v1 role', { ...V1, role: 'B' }, 'role is "B", neither "P" nor "D"'],
    ['v1 address', { ...V1, request_address: 'ftp://10.0.0.1/v1' }, 'is no http URL'],
  ])('%s', (_name, value, problem) => {
    expect(readMessage(encode(value))).toEqual({ kind: 'malformed', problem: expect.stringContaining(problem) as string });
  });

  test('too large, cut off, followed by something, and no text of it unbounded or with control characters', () => {
    expect(readMessage(new Uint8Array(MAX_PAYLOAD_BYTES + 1))).toMatchObject({ problem: '4097 bytes, more than any registration has' });
    const bytes = encode(V2);
    expect(readMessage(bytes.subarray(0, -1))).toMatchObject({ problem: 'not msgpack: truncated' });
    expect(readMessage(Buffer.concat([bytes, Buffer.of(1)]))).toMatchObject({ problem: 'not msgpack: 1 bytes follow the value' });
    const message = read({ ...V2, http_address: `\u0007${'x'.repeat(2000)}:1` });
    if (message.kind !== 'malformed') throw new Error('taken for a registration');
    expect(message.problem.length).toBeLessThanOrEqual(240);
    expect(message.problem).not.toContain('\u0007');
  });

  test('whatever bytes arrive, an answer comes and nothing is thrown', () => {
    check(
      property(uint8Array({ maxLength: 300 }), (bytes) => {
        expect(['registration', 'hello', 'p2p-nccl', 'malformed']).toContain(readMessage(bytes).kind);
      }),
    );
  });

  test('a registration with one byte changed is read or refused, and what is read can travel', () => {
    const bytes = Buffer.from(golden('head/decode-read/ping-1').payload_hex, 'hex');
    check(
      property(nat(bytes.length - 1), nat(255), (at, value) => {
        const changed = Buffer.from(bytes);
        changed[at] = value;
        const message = readMessage(changed);
        if (message.kind !== 'registration') return;
        const { zmqAddress, dpSize, tpSize, handshakePort, notifyPort, origin } = message.registration;
        expect(zmqAddress).toMatch(/^host:[\x21-\x7e]+$/);
        for (const number of [dpSize, tpSize, handshakePort, notifyPort]) expect(number).toBeGreaterThan(0);
        expect(new URL(origin).origin).toBe(origin);
      }),
    );
  });

  test('any map of plausible fields is read without a throw', () => {
    const value = oneof(string(), integer(), constant(null), boolean(), constantFrom('P', 'D', 'register', 'HELLO', '10.0.0.1:1'));
    const key = constantFrom('type', 'role', 'http_address', 'zmq_address', 'request_address', 'dp_size', 'tp_size', 'transfer_mode', 'handshake_port', 'notify_port');
    check(property(dictionary(key, value), (fields) => {
      expect(read(fields).kind).toBeTypeOf('string');
    }));
  });
});
