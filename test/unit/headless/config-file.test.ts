import { describe, expect, it } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import { parseConfig, readConfigFile } from '../../../electron/headless/config/config-file.ts';

/** The message of the failure, line by line. */
function problems(text: string): readonly string[] {
  try {
    parseConfig(text, 'c.yaml');
  } catch (error) {
    if (error instanceof PdscopeError && error.code === 'bad_config') return error.message.split('\n');
    throw error;
  }
  return [];
}

describe('configuration file', () => {
  it('reads every form of instance, duration, size and KV endpoint', () => {
    const config = parseConfig(
      `
prefill: [10.0.0.1:8100]
decode:
  - url: http://10.0.0.2:8200
    name: big
    kv-events: tcp://10.0.0.2:5557,replay=tcp://10.0.0.2:5558,ranks=2
kv-events:
  P0: { endpoint: 'tcp://*:5557', bind: true, topic: kv }
idle-timeout: 2m
connect-timeout: 3
max-body: 1MiB
demo: 4P4D
capture: true
`,
      'c.yaml',
    );
    expect(config).toEqual({
      prefill: [{ url: '10.0.0.1:8100' }],
      decode: [
        {
          url: 'http://10.0.0.2:8200',
          name: 'big',
          'kv-events': { endpoint: 'tcp://10.0.0.2:5557', replayEndpoint: 'tcp://10.0.0.2:5558', ranks: 2, topic: '', mode: 'connect' },
        },
      ],
      'kv-events': { P0: { endpoint: 'tcp://*:5557', mode: 'bind', topic: 'kv', ranks: 1 } },
      'idle-timeout': 120_000,
      'connect-timeout': 3000,
      'max-body': 1_048_576,
      demo: { encode: 0, prefill: 4, decode: 4, both: 0 },
      capture: true,
    });
  });

  it('takes an empty file', () => {
    expect(parseConfig('', 'c.yaml')).toEqual({});
    expect(parseConfig('# nothing yet\n', 'c.yaml')).toEqual({});
  });

  it.each([
    ['port: 70000', 'c.yaml:1:7: port: Too big: expected number to be <=65535; allowed: 0 to 65535 (0 = any free one)'],
    ['a: 1\nport: x', 'c.yaml:2:7: port: Invalid input: expected number, received string; allowed: 0 to 65535 (0 = any free one)'],
    ['model: m\n\npolicy: best', 'c.yaml:3:9: policy: Invalid option: expected one of "round-robin"|"random"|"least-in-flight"|"power-of-two"|"prefix-aware"; allowed: round-robin, random, least-in-flight, power-of-two, prefix-aware'],
    ['idle-timeout: soon', 'c.yaml:1:15: idle-timeout: "soon" is not a duration; write 500ms, 5s, 10m or 1h (a bare number is seconds).; allowed: a duration: 500ms, 5s, 10m'],
    ['tokenize-deadline: 20', 'c.yaml:1:20: tokenize-deadline: "20" is 20s (a bare number is seconds); it must be at most 10s.; allowed: a duration: 20ms, 1s'],
    ['kv-events:\n  P0: { endpoint: tcp://h:1, replay: h:2 }', 'c.yaml:2:7: kv-events.P0: replay: must start with tcp:// or ipc://; allowed: <instance>: endpoint[,replay=...,topic=...,ranks=N,bind], or {endpoint, replay, topic, ranks, bind}'],
    ['demo: 3X', 'c.yaml:1:7: demo: "3X" is not a shape; write how many of each role, e.g. 2P3D, 1E4P4D or 2B (at most 64 each).; allowed: true, false, or a shape such as 2P3D'],
    ['decode:\n  - url: h:1\n    nam: x', 'c.yaml:3:5: decode.0 has no key "nam"'],
    ['kv-events:\n  P0: http://h:1', 'c.yaml:2:7: kv-events.P0: KV events "http://h:1": endpoint must start with tcp:// or ipc://; allowed: endpoint[,replay=<endpoint>][,topic=<text>][,ranks=<n>][,bind].; allowed: <instance>: endpoint[,replay=...,topic=...,ranks=N,bind], or {endpoint, replay, topic, ranks, bind}'],
  ])('tells where and what is allowed: %j', (text, expected) => {
    expect(problems(text)).toContain(expected);
  });

  it('refuses unknown keys at the key, with the nearest known one', () => {
    expect(problems('model: m\n  \nprefil: [a:1]\nzzz: 1')).toEqual([
      'c.yaml:3:1: there is no key "prefil"; did you mean prefill?',
      expect.stringMatching(/^c\.yaml:4:1: there is no key "zzz"; allowed: model, encode, /u),
    ]);
  });

  it.each([
    ['port: [1', /^c\.yaml:1:\d+: /u],
    ['port: 1\nport: 2', /^c\.yaml:2:1: Map keys must be unique/u],
    ['- a\n- b', /^c\.yaml:1:1: the file: Invalid input: expected object, received array$/u],
  ])('tells where the YAML breaks: %j', (text, expected) => {
    expect(problems(text)[0]).toMatch(expected);
  });

  it('is not blown up by aliases', () => {
    const bomb = ['a: &a [x,x,x,x,x,x,x,x,x]', ...'bcdefghi'.split('').map((name, i) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[i]}`).join(',')}]`)].join('\n');
    expect(() => parseConfig(bomb, 'c.yaml')).toThrow(PdscopeError);
  });

  it('names a file that cannot be read', async () => {
    await expect(readConfigFile('/nonexistent/c.yaml')).rejects.toMatchObject({ code: 'bad_config', message: expect.stringContaining('/nonexistent/c.yaml') });
  });
});
