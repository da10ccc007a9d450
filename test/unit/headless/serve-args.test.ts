import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseEngineOptions } from '#engine/engine-options.ts';
import { parseServeArgs } from '../../../electron/headless/commands/serve-command.ts';

const parse = (...args: readonly string[]) => parseServeArgs(args, {});

describe('serve arguments', () => {
  it("takes vLLM's demo proxy's flags", async () => {
    const { engine } = await parse('--model', 'm', '--prefill', 'p1:8100', 'p2:8100', '--decode', 'd1:8200', '--port', '8001');
    expect(engine).toMatchObject({
      model: 'm',
      proxy: { port: 8001 },
      instances: [
        { role: 'prefill', url: 'p1:8100' },
        { role: 'prefill', url: 'p2:8100' },
        { role: 'decode', url: 'd1:8200' },
      ],
    });
  });

  it("takes the Mooncake proxy's repeated --prefill with bootstrap ports", async () => {
    const { engine } = await parse('--prefill', 'http://p1:8100', '9000', '--prefill', 'http://p2:8100', 'none', '--prefill', 'http://p3:8100', '--decode', 'http://d1:8200', '--decode', 'http://d2:8200');
    expect(engine.connector).toBe('mooncake');
    expect(engine.instances).toEqual([
      { role: 'prefill', url: 'http://p1:8100', bootstrapPort: 9000 },
      { role: 'prefill', url: 'http://p2:8100' },
      { role: 'prefill', url: 'http://p3:8100' },
      { role: 'decode', url: 'http://d1:8200' },
      { role: 'decode', url: 'http://d2:8200' },
    ]);
    expect((await parse('--prefill', 'p1:8100', '9000', '--decode', 'd1:8200', '--connector', 'nixl')).engine.connector).toBe('nixl');
  });

  it.each([['--prefiller-hosts', '--prefiller-ports', '--decoder-hosts', '--decoder-ports'], ['--prefiller-host', '--prefiller-port', '--decoder-host', '--decoder-port']])(
    "takes the multi-turn proxy's %s",
    async (prefillerHost, prefillerPort, decoderHost, decoderPort) => {
      const { engine } = await parse('--host', '0.0.0.0', '--port', '8000', prefillerHost, '10.0.0.1', '::1', prefillerPort, '8100', '8101', decoderHost, '10.0.0.2', decoderPort, '8200');
      expect(engine).toMatchObject({ connector: 'nixl-bidirectional', proxy: { host: '0.0.0.0', port: 8000 } });
      expect(engine.instances).toEqual([
        { role: 'prefill', url: '10.0.0.1:8100' },
        { role: 'prefill', url: '[::1]:8101' },
        { role: 'decode', url: '10.0.0.2:8200' },
      ]);
    },
  );

  it("fills in the multi-turn proxy's defaults for the side not given", async () => {
    expect((await parse('--prefiller-ports', '8105')).engine.instances).toEqual([
      { role: 'prefill', url: 'localhost:8105' },
      { role: 'decode', url: 'localhost:8200' },
    ]);
  });

  it("takes the EPD proxy's lists of URLs", async () => {
    const { engine } = await parse(
      '--encode-servers-urls', 'http://e1:8001,http://e2:8001', '--prefill-servers-urls', 'http://p1:8003', '--decode-servers-urls', 'http://d1:8005, http://d2:8006',
      '--no-rewrite', '--log-requests', '--decode-retries', '3',
    );
    expect(engine).toMatchObject({ connector: 'nixl', maxRetries: 3 });
    expect(engine.instances?.map(({ role, url }) => `${role} ${url}`)).toEqual([
      'encode http://e1:8001', 'encode http://e2:8001', 'prefill http://p1:8003', 'decode http://d1:8005', 'decode http://d2:8006',
    ]);
  });

  it.each(['disable', 'none', ''])('runs encode and aggregated instances when prefill is "%s"', async (disabled) => {
    const { engine } = await parse('--encode-servers-urls', 'http://e1:8001', '--prefill-servers-urls', disabled, '--decode-servers-urls', 'http://d1:8005');
    expect(engine.connector).toBe('aggregated');
    expect(engine.instances).toEqual([{ role: 'encode', url: 'http://e1:8001' }, { role: 'both', url: 'http://d1:8005' }]);
  });

  it('takes settings of protocols and ranks of instances', async () => {
    const { engine } = await parse(
      '--prefill', 'p:1', '--decode', 'd:1', '--dp-size', 'P0=4', '--dp-size', 'd:1=2', '--connector', 'moriio', '--moriio-port', '40000', '--moriio-mode', 'READ', '--moriio-allow', '10.0.0.0/24', 'gpu7',
      '--conversation-ttl', '5m', '--keep-conversations', '50', '--reemit-streams', '--no-block-fatal', '--no-encode-stage', '--report-cache', '--prefill-skip-tokens', '64', '--no-tokenize-for-routing', '--bootstrap-port', '9100',
    );
    expect(engine.instances?.map(({ dpSize }) => dpSize)).toEqual([4, 2]);
    expect(parseEngineOptions({ ...engine, version: 'x', host: 'headless' }).protocol).toEqual({
      blockFatal: false, reemitStreams: true, encodeStage: 'off', reportCache: true, prefillSkipTokens: 64, tokenizeForRouting: false, conversationTtlMs: 300_000, conversations: 50, bootstrapPort: 9100,
      moriioHost: '0.0.0.0', moriioPort: 40_000, moriioAllow: ['10.0.0.0/24', 'gpu7'], moriioMode: 'READ',
    });
  });

  it('takes the size of a token on an instance, as a number or with a unit', async () => {
    const { engine } = await parse('--prefill', 'p:1', '--decode', 'd:1', '--kv-bytes-per-token', 'P0=147456', '--kv-bytes-per-token', 'd:1=144KiB');
    expect(engine.instances?.map(({ kvBytesPerToken }) => kvBytesPerToken)).toEqual([147_456, 147_456]);
  });

  it('takes settings of routing by prefix', async () => {
    expect((await parse('--policy', 'prefix-aware')).engine.protocol).toEqual({});
    expect((await parse('--policy', 'prefix-aware', '--prefill-skip-tokens', '256', '--no-tokenize-for-routing', '--tokenize-deadline', '50ms')).engine).toMatchObject({
      policy: 'prefix-aware', protocol: { prefillSkipTokens: 256, tokenizeForRouting: false, tokenizeDeadlineMs: 50 },
    });
  });

  it('explains misses unless it is told not to', async () => {
    expect((await parse()).engine.explainMisses).toBeUndefined();
    expect((await parse('--no-explain-misses')).engine.explainMisses).toBe(false);
  });

  it('starts empty, on loopback, with defaults the engine accepts', async () => {
    const settings = await parse();
    expect(settings.control).toEqual({ host: '127.0.0.1', port: 7080, allowRemote: false, fixedToken: undefined });
    expect(settings.open).toBeUndefined();
    expect(parseEngineOptions({ ...settings.engine, version: 'x', host: 'headless' })).toMatchObject({
      proxy: { host: '127.0.0.1', port: 8000 },
      instances: [],
      connector: 'nixl',
      policy: 'least-in-flight',
      timeouts: { connectMs: 5000, headersMs: 600_000, idleMs: 300_000 },
      retention: { requests: 10_000, kvEvents: 50_000, blocks: 1_000_000 },
      maxBodyBytes: 64 * 1024 * 1024,
      capture: false,
    });
  });

  it('reads the demo with and without a shape', async () => {
    expect((await parse('--demo')).engine.demo).toEqual({});
    expect((await parse('--demo', '4P4D', '--demo-rate', '2.5')).engine.demo).toEqual({ encode: 0, prefill: 4, decode: 4, both: 0, requestsPerSecond: 2.5 });
    expect((await parse()).engine.demo).toBeUndefined();
  });

  it('gives KV events to instances by name or address', async () => {
    const { engine } = await parse(
      '--prefill', '10.0.0.1:8100', '--decode', 'http://[::1]:8200', '10.0.0.3:8200',
      '--kv-events', 'p0=tcp://10.0.0.1:5557,topic=kv', '--kv-events', '[::1]:8200=tcp://[::1]:5557,ranks=4,bind', '--kv-events', 'D1=tcp://d:1,replay=tcp://d:2',
    );
    expect(engine.instances?.map(({ kvEvents }) => kvEvents)).toEqual([
      { endpoint: 'tcp://10.0.0.1:5557', topic: 'kv', ranks: 1, mode: 'connect' },
      { endpoint: 'tcp://[::1]:5557', topic: '', ranks: 4, mode: 'bind' },
      { endpoint: 'tcp://d:1', replayEndpoint: 'tcp://d:2', topic: '', ranks: 1, mode: 'connect' },
    ]);
  });

  it('says which instances there are when KV events name none', async () => {
    await expect(parse('--prefill', 'a:1', '--kv-events', 'D0=tcp://x:1')).rejects.toMatchObject({
      code: 'bad_usage',
      message: '--kv-events D0: names no instance given. Instances: P0 (a:1).',
    });
    await expect(parse('--prefill', 'a:1', '--decode', 'a:1', '--kv-events', 'a:1=tcp://x:1')).rejects.toThrow('fits more than one instance; use its name');
  });

  it.each([
    [['--port', '70000'], /whole number from 0 to 65535/u],
    [['--policy', 'best'], /Allowed choices are round-robin, random, least-in-flight, power-of-two/u],
    [['--idle-timeout', 'soon'], /is not a duration/u],
    [['--max-body', '-1'], /is not a size/u],
    [['--demo', '0P3D'], /is not a shape/u],
    [['--demo', '2P2P1D'], /is not a shape/u],
    [['--kv-events', 'tcp://x:1'], /names no instance/u],
    [['--kv-events', 'P0=tcp://x:1,colour=red'], /"colour=red" is not understood/u],
    [['--prefill', '9000', 'p:1'], /"9000" stands where an address was expected/u],
    [['--prefill', 'p:1', '9000', '9001'], /"9001" stands where an address was expected/u],
    [['--prefill', 'p:1', '70000'], /bootstrap port must be 1 to 65535/u],
    [['--prefiller-hosts', 'a', 'b', '--prefiller-ports', '1'], /equal number: 2 and 1/u],
    [['--decoder-ports', 'x'], /whole number from 1 to 65535/u],
    [['--encode-servers-urls', 'http://e:1'], /must name at least one instance/u],
    [['--ec-consumer-zmq-addrs', 'tcp://d:1', '--decode-servers-urls', 'http://d:1'], /not supported/u],
    [['--dp-size', 'P0'], /gives no instance its ranks/u],
    [['--dp-size', 'P0=0'], /gives no instance its ranks/u],
    [['--dp-size', 'D7=2', '--decode', 'd:1'], /--dp-size D7: names no instance given/u],
    [['--kv-bytes-per-token', 'D0=0', '--decode', 'd:1'], /gives no instance its KV bytes per token/u],
    [['--kv-events', 'P0=tcp://x:1,ranks=0'], /ranks must be from 1 to 1024; allowed/u],
    [['--kv-events', 'P0=tcp://x:1,replay=x:2'], /replay must start with tcp:\/\/ or ipc:\/\/; allowed/u],
    [['--kv-events', 'P0=inproc://x'], /endpoint must start with tcp:\/\/ or ipc:\/\/; allowed/u],
    [['--kv-events', 'P0=tcp://x:1,bind,topic=a,bind'], /"bind" is given twice/u],
    [['--prefill', 'p:1', '--kv-events', 'P0=tcp://x:1', '--kv-events', 'p0=tcp://x:2'], /--kv-events p0: given twice/u],
    [['--prefill', 'p:1', '--kv-events', 'P0=tcp://x:1', '--kv-events', 'p:1=tcp://x:2'], /--kv-events p:1: P0 is given twice/u],
    [['--decode', 'd:1', '--dp-size', 'D0=2', '--dp-size', 'D0=4'], /--dp-size D0: given twice/u],
    [['--tokenize-deadline', '20'], /"20" is 20s \(a bare number is seconds\); it must be at most 10s/u],
    [['--idle-timeout', '10ms'], /"10ms" is 10ms \(a bare number is seconds\); it must be at least 100ms/u],
    [['--max-body', '1k'], /"1k" is \d+ bytes; it must be at least 1024 bytes/u],
    [['--kv-bytes-per-token', 'D0=1GB', '--decode', 'd:1'], /gives no instance its KV bytes per token/u],
    [['--prefil', 'x'], /unknown option '--prefil'/u],
  ])('refuses %j in words', async (args, message) => {
    await expect(parse(...args)).rejects.toThrow(message);
  });

  it('reads keys from the environment, and takes empty ones for none', async () => {
    const settings = await parseServeArgs([], { ADMIN_API_KEY: 'a', OPENAI_API_KEY: '', PDSCOPE_TOKEN: 't' });
    expect(settings.engine.adminApiKey).toBe('a');
    expect(settings.engine).not.toHaveProperty('openaiApiKey');
    expect(settings.control.fixedToken).toBe('t');
  });

  describe('with a file', () => {
    let dir: string;
    beforeEach(async () => {
      dir = await mkdtemp(join(tmpdir(), 'pdscope-config-'));
    });
    afterEach(() => rm(dir, { recursive: true }));

    it('lets flags win, key by key', async () => {
      const path = join(dir, 'c.yaml');
      await writeFile(path, 'prefill: [a:1, b:1]\ndecode: [c:1]\nport: 9000\npolicy: random\nopen: false\ncapture: true\n');
      const settings = await parse('--config', path, '--prefill', 'z:1', '--policy', 'round-robin');
      expect(settings.engine).toMatchObject({
        proxy: { port: 9000 },
        policy: 'round-robin',
        capture: true,
        instances: [{ role: 'prefill', url: 'z:1' }, { role: 'decode', url: 'c:1' }],
      });
      expect(settings.engine.instances).toHaveLength(2);
      expect(settings.open).toBe(false);
    });
  });

  it('takes --no-open', async () => {
    expect((await parse('--no-open')).open).toBe(false);
  });
});
